"""Make the picture of the README: the page that `evalkit demo` writes, in light and in dark.

    python docs/make_picture.py

Needs Chromium; writes docs/images/demo-light.png and demo-dark.png.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "images"
SCHEMES = {"dark": 0, "light": 1}  # as Chromium's setting preferredColorScheme numbers them
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-sync", "--window-size=1000,760"),
)


def main(folder: Path = FOLDER) -> None:
    """Run the demo in a folder of its own, and take both pictures of its page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium is on the path")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        demo = [sys.executable, "-m", "evalkit", "demo", "--quiet"]
        subprocess.run(demo, cwd=place, check=True, stdout=subprocess.DEVNULL)
        page = Path(place, "runs", "latest", "report.html").resolve()
        for scheme, number in SCHEMES.items():
            command = [
                browser,
                *OPTIONS,
                f"--user-data-dir={place}/{scheme}",
                f"--blink-settings=preferredColorScheme={number}",
                f"--screenshot={folder / f'demo-{scheme}.png'}",
                page.as_uri(),
            ]
            subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
