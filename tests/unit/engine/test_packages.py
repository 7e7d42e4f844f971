"""Package versions are on record for information; they are told, and nothing is asked."""

from __future__ import annotations

from importlib import metadata

from durable_nb.engine import packages


def test_versions_are_those_of_the_metadata():
    """Folder names say what the metadata says, for what is installed here."""
    found = packages.installed()
    for name in ("duckdb", "pandas", "ipython", "diskcache"):
        assert found[name] == metadata.version(name)
    assert found["python"].count(".") == 2


def test_what_differs_is_told_on_a_resume_and_stops_nothing(
    open_run, monkeypatch, tmp_path, capsys
):
    """Installed code is not watched, so a new version is said, and said once."""
    with open_run() as run:
        run.step("a", effect="none").call(lambda: 1)
    capsys.readouterr()
    for folder in ("pandas-99.1.dist-info", "Brand_New-1.0.dist-info"):
        (tmp_path / "site" / folder).mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    with open_run() as run:
        assert run.step("a", effect="none").call(lambda: 1) == 1
    said = capsys.readouterr().err
    assert "for information: packages differ" in said
    assert "-> 99.1" in said
    assert "brand-new not there -> 1.0" in said
    with open_run():
        pass
    assert "packages differ" not in capsys.readouterr().err
