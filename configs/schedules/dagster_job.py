"""The nightly job as a Dagster job with a schedule; a failed gate is a failure with a reason.

Alert policies, or a sensor made with dagster.make_email_on_run_failure_sensor, tell people of it.
"""

import subprocess
from datetime import timedelta

import dagster

COMMAND = [
    *("/srv/evalkit/.venv/bin/evalkit", "run", "/srv/evalkit/configs/nightly.toml"),
    *("--if-new", "--wait", "600", "--log-format", "json", "--summary"),
]


@dagster.op(config_schema={"day": str})
def evaluate(context):
    """Run evalkit for one day and put its summary into the log."""
    done = subprocess.run(
        [*COMMAND, "--var", f"day={context.op_config['day']}"],
        capture_output=True,
        text=True,
        check=False,
    )
    context.log.info(done.stdout)
    if done.returncode == 75:
        raise dagster.RetryRequested(max_retries=3, seconds_to_wait=600)
    if done.returncode:
        raise dagster.Failure(
            "a gate failed" if done.returncode == 1 else f"evalkit ended with {done.returncode}",
            metadata={"errors": done.stderr},
        )


@dagster.job
def evalkit_nightly():
    """One evaluation."""
    evaluate()


@dagster.schedule(job=evalkit_nightly, cron_schedule="0 3 * * *")
def every_night(context):
    """Three in the morning, for the day before."""
    day = context.scheduled_execution_time.date() - timedelta(days=1)
    return {"ops": {"evaluate": {"config": {"day": day.isoformat()}}}}
