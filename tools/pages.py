"""Write the generated pages of `docs/`; a unit test fails where one of them is stale.

python -m tools.pages
"""

from __future__ import annotations

from pathlib import Path

from tools import error_reference, guarantees, settings_reference

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m tools.pages"


def render_pages(root: Path) -> dict[str, str]:
    """Path from the root -> the text that should stand there."""
    return {
        "docs/GUARANTEES.md": guarantees.render(guarantees.read_guarantees(root)),
        "docs/reference/errors.md": error_reference.render(root),
        "docs/reference/settings.md": settings_reference.render(),
    }


def main() -> None:
    for path, text in render_pages(ROOT).items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
