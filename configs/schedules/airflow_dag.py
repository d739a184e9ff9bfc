"""The nightly job as an Airflow 3 DAG, for the day before; a failed gate (1) fails the task."""

import logging
from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

# The day before the run may begin. {{ ds }} would be the day of the run itself, or the day before,
# as [scheduler] create_cron_data_intervals says; run_after is the same under both, and by hand.
COMMAND = (
    "/srv/evalkit/.venv/bin/evalkit run /srv/evalkit/configs/nightly.toml "
    "--var day={{ macros.ds_add(dag_run.run_after | ds, -1) }} "
    "--if-new --wait 600 --log-format json --summary"
)


def tell(context):
    """Put the way that your people hear of failures here, such as a notifier of a provider."""
    logging.getLogger(__name__).error("%s failed, its log says why", context["task_instance"])


with DAG(
    dag_id="evalkit_nightly",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    BashOperator(
        task_id="evaluate",
        # A retry after a failed gate changes nothing: --if-new ends with 1 again, at once.
        bash_command=COMMAND,
        retries=3,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=2),
        on_failure_callback=tell,
    )
