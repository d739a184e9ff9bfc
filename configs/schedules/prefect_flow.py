"""The nightly job as a Prefect flow; a failed gate fails the run with its reason.

`python configs/schedules/prefect_flow.py` serves it every night at three, UTC. An automation on the
state Failed tells people of it.
"""

import subprocess
from datetime import UTC, datetime, timedelta

from prefect import flow, get_run_logger, task

COMMAND = [
    *("/srv/evalkit/.venv/bin/evalkit", "run", "/srv/evalkit/configs/nightly.toml"),
    *("--if-new", "--wait", "600", "--log-format", "json", "--summary"),
]
TRY_AGAIN = 75


class NotNow(Exception):
    """The lock is held, or a store does not answer."""


def is_not_now(task, run, state):
    """Only what may pass by itself is tried again."""
    return isinstance(state.result(raise_on_failure=False), NotNow)


@task(retries=3, retry_delay_seconds=600, retry_condition_fn=is_not_now)
def evaluate(day: str) -> str:
    """Run evalkit for one day and put its summary into the log."""
    done = subprocess.run(
        [*COMMAND, "--var", f"day={day}"], capture_output=True, text=True, check=False
    )
    get_run_logger().info(done.stdout)
    if done.returncode == TRY_AGAIN:
        raise NotNow(done.stderr)
    if done.returncode:
        reason = (
            "a gate failed" if done.returncode == 1 else f"evalkit ended with {done.returncode}"
        )
        raise RuntimeError(f"{reason}: {done.stdout}{done.stderr}")
    return done.stdout


@flow
def evalkit_nightly(day: str | None = None) -> str:
    """One evaluation; of the day before, in UTC, where none is named."""
    return evaluate(day or (datetime.now(UTC) - timedelta(days=1)).date().isoformat())


if __name__ == "__main__":
    evalkit_nightly.serve(name="nightly", cron="0 3 * * *")
