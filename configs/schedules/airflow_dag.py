"""The nightly job as an Airflow DAG. A failed gate (status 1) fails the task."""

from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

COMMAND = (
    "evalkit run /srv/evalkit/configs/nightly.toml --var day={{ ds }} "
    "--if-new --wait 600 --log-format json --summary"
)

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
    )
