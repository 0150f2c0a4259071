# SPDX-License-Identifier: Apache-2.0
"""The browser on the PATH takes screenshots. In these tests, it is a script."""

import shutil

import pytest
from typer.testing import CliRunner

from connector_release_tools.cli import app

SCRIPT = """\
#!/bin/sh
for each; do
  case $each in
    --screenshot=*) picture=${each#--screenshot=} ;;
  esac
  page=$each
done
case $page in
  *README.html) printf '%s' "$page $*" > "${picture%.png}.txt" ;;
esac
PICTURE
"""
PAINTS = "printf '\\211PNG\\r\\n' > \"$picture\""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Adds a browser to the PATH, and a site to the repository."""
    programs = tmp_path / "bin"
    programs.mkdir()
    site = tmp_path / "site"
    (site / "docs").mkdir(parents=True)
    (site / "README.html").write_text("<p>home")
    (site / "docs/deploy.html").write_text("<p>deploy")

    def install(last_line: str | None) -> None:
        if last_line is not None:
            (programs / "chromium").write_text(SCRIPT.replace("PICTURE", last_line))
            (programs / "chromium").chmod(0o755)
        for name in ("git", "sh"):
            (programs / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(programs))

    return install


def run(tree, tmp_path, *more):
    arguments = ["--root", str(tree.root), "--site", str(tmp_path / "site"), *more]
    return CliRunner().invoke(app, ["docs", "screenshot", *arguments])


def test_every_page_is_captured_in_every_view_without_a_network(installed, tree, tmp_path):
    installed(PAINTS)
    said = run(tree, tmp_path)
    assert said.exit_code == 0, said.output
    assert "8 screenshots" in said.output
    folder = tree.root / "build/site-screenshots"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.png")} == {
        f"{kind}/{page}.png"
        for kind in ("wide", "narrow", "wide-dark", "narrow-dark")
        for page in ("README", "docs/deploy")
    }
    called = (folder / "wide/README.txt").read_text()
    assert called.startswith((tmp_path / "site/README.html").as_uri())
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in called
    assert "preferredColorScheme=1" in called
    assert "preferredColorScheme=0" in (folder / "wide-dark/README.txt").read_text()


@pytest.mark.parametrize("last_line", ["exit 0", "echo no > $picture", "exit 3"])
def test_a_page_that_does_not_load_is_an_error(installed, tree, tmp_path, last_line):
    installed(last_line)
    assert run(tree, tmp_path).exit_code == 2


def test_a_missing_browser_is_reported(installed, tree, tmp_path):
    installed(None)
    said = run(tree, tmp_path)
    assert said.exit_code == 0
    assert "not run, no browser found" in said.output


def test_a_missing_site_is_an_error_with_a_hint(installed, tree, tmp_path):
    installed(PAINTS)
    for page in (tmp_path / "site").rglob("*.html"):
        page.unlink()
    assert "release-tools docs build" in run(tree, tmp_path).output


@pytest.mark.parametrize(
    "name", ["notes.txt", "wide/notes.txt", "wide-dark/a/b.jpg", "holiday/a.png"]
)
def test_a_folder_with_other_contents_is_refused_and_stays(installed, tree, tmp_path, name):
    installed(PAINTS)
    mine = tmp_path / "mine"
    for each in ("narrow/a.png", name):
        (mine / each).parent.mkdir(parents=True, exist_ok=True)
        (mine / each).write_text("mine")
    said = run(tree, tmp_path, "--out", str(mine))
    assert said.exit_code == 2
    assert "other contents than screenshots" in said.output
    assert all((mine / each).read_text() == "mine" for each in ("narrow/a.png", name))


def test_a_link_to_a_folder_of_pictures_is_refused(installed, tree, tmp_path):
    installed(PAINTS)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.png").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/wide").symlink_to(tmp_path / "photos")
    assert run(tree, tmp_path, "--out", str(tmp_path / "mine")).exit_code == 2
    assert (tmp_path / "photos/a.png").exists()


def test_screenshots_of_pages_that_are_gone_are_removed(installed, tree, tmp_path):
    installed(PAINTS)
    folder = tmp_path / "pictures"
    (folder / "wide").mkdir(parents=True)
    (folder / "wide/gone.png").write_text("")
    assert run(tree, tmp_path, "--out", str(folder)).exit_code == 0
    assert not (folder / "wide/gone.png").exists()
    assert (folder / "wide/README.png").exists()
