"""How the tests find a browser, without one."""

from pathlib import Path

import pytest

from tests.support.browser import NO_CHROMIUM, find_chromium


def _install(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.touch(mode=0o755)
    return str(path)


def test_chromium_is_the_chosen_one_then_the_systems_then_the_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    downloaded = str(tmp_path / "playwright" / "chrome")
    assert find_chromium(downloaded) is None
    assert find_chromium(_install(tmp_path / "playwright", "chrome")) == downloaded
    for name in ("google-chrome", "chromium-browser", "chromium"):
        installed = _install(tmp_path / "bin", name)
        assert find_chromium(downloaded) == installed
    chosen = _install(tmp_path / "chosen", "chrome")
    monkeypatch.setenv("CHROMIUM", chosen)
    assert find_chromium(downloaded) == chosen


def test_the_message_about_a_missing_chromium_is_one_line_with_the_commands_that_install_it() -> None:
    assert NO_CHROMIUM.count("\n") == 0
    for command in ("apt-get install chromium", "playwright install chromium", "CHROMIUM"):
        assert command in NO_CHROMIUM
