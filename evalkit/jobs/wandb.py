"""A finished run in Weights & Biases: its numbers, what it rests on, its page."""

from pathlib import Path

from evalkit.jobs.trackers import FILES, name_numbers
from evalkit.report import Report
from evalkit.report.record import readable
from evalkit.report.verdict import verdict_of


def track(report: Report, project: str, path: Path | None) -> str:
    """The id of the new run; WANDB_MODE=offline keeps it in the folder WANDB_DIR."""
    import wandb

    verdict = verdict_of(report)
    run = wandb.init(
        project=project,
        name=report.run_id,
        job_type="evaluation",
        config={"profile": report.profile, "run_key": report.run_key},
        settings=wandb.Settings(silent=True, console="off"),
    )
    told = {"evalkit/name": readable(report.name), "evalkit/verdict": str(verdict)}
    exit_code = 1
    try:
        run.summary.update({**dict(name_numbers(report)), **told})
        found = [path / name for name in FILES if (path / name).is_file()] if path else []
        if found:
            artifact = wandb.Artifact(f"evalkit-{report.run_id}", type="evaluation")
            for file in found:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
        exit_code = 0 if verdict.is_fine else 1
    finally:
        run.finish(exit_code=exit_code)
    return str(run.id)
