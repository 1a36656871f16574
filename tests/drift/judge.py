"""Runs one row: damage, check, one converge, check again."""

from __future__ import annotations

from tests.lab.host import LabError

from .row import Result, Row
from .site import Report, Site

IN_SYNC, DRIFT, ERROR = 0, 1, 2


def run(site: Site, row: Row) -> Result:
    """Do one row; what is not as wanted becomes a note, and the site is left converged."""
    result = Result(row, [])
    try:
        before = site.processes()
        _damage(site, row)
        _WAYS[row.way](site, row, result)
        _untouched(row, result, before, site.processes())
        if row.prove:
            row.prove(site)
    except (AssertionError, LabError) as error:
        result.repaired = False
        result.notes.append(f"{type(error).__name__}: {error}")
    _restore(site, result)
    return result


def _damage(site: Site, row: Row) -> None:
    if row.damage:
        site.root(row.damage)
    if row.act:
        row.act(site)
    if row.fleet:
        site.fleet = row.fleet(site)


def _mended(site: Site, row: Row, result: Result) -> None:
    checked = site.check(*row.words)
    missed = row.missed(checked.texts)
    result.found = checked.rc == DRIFT and not missed
    if not result.found:
        result.notes.append(f"check {checked.rc}: not named {missed}, said {_said(checked)}")
    result.repaired = _converged(site, row, result)


def _noted(site: Site, row: Row, result: Result) -> None:
    checked = site.check(*row.words)
    result.found = checked.rc == IN_SYNC and not row.missed(checked.notes)
    if not result.found:
        result.notes.append(f"check {checked.rc}: said {_said(checked)}, noted {checked.notes}")
    done = site.converge(*row.words)
    result.repaired = done.rc == IN_SYNC and not done.phrases
    result.untouched = result.repaired
    if not result.repaired:
        result.notes.append(f"converge {done.rc}: {_said(done)}")
    site.root(row.undo)


def _refused(site: Site, row: Row, result: Result) -> None:
    """Nothing changes while the cause is there; without it one converge is enough."""
    before = site.processes()
    checked, refused = site.check(), site.converge()
    result.found = checked.rc == refused.rc == ERROR
    result.found &= not row.missed(checked.problems) and not row.missed(refused.problems)
    if not result.found:
        result.notes.append(f"not refused: check {_said(checked)}, converge {_said(refused)}")
    if refused.phrases or site.processes() != before:
        result.notes.append(f"changed although refused: {_said(refused)}")
        result.found = False
    site.root(row.undo)
    result.repaired = _converged(site, row, result)


_WAYS = {"mended": _mended, "noted": _noted, "refused": _refused}


def _converged(site: Site, row: Row, result: Result) -> bool:
    """One converge that changes what the row says and nothing else, then in sync."""
    done = site.converge(*row.words)
    strange = row.strange(done.texts)
    elsewhere = [f"{host}: {text}" for host, text in done.phrases if host != site.one.name]
    result.untouched = not strange and not elsewhere
    if not result.untouched:
        result.notes.append(f"touched as well: {strange} {elsewhere}")
    after = site.check(*row.words)
    good = done.rc == after.rc == IN_SYNC and not after.phrases
    if not good:
        result.notes.append(f"converge {done.rc}: {_said(done)}; then check {_said(after)}")
    return good


def _untouched(row: Row, result: Result, before: dict[str, str], after: dict[str, str]) -> None:
    """Exactly the processes that the row names are others than before."""
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    wanted = sorted(f"spark-1/{unit}" for unit in row.restarted)
    if changed != wanted:
        result.untouched = False
        result.notes.append(f"processes changed: {changed}, wanted: {wanted}")


def _restore(site: Site, result: Result) -> None:
    """The next row starts from a converged fleet, whatever this one left."""
    back = site.fleet != site.main
    site.fleet = site.main
    try:
        site.root(result.row.undo)
    except LabError as error:
        result.repaired = False
        result.notes.append(f"undo: {error}")
    if back or not result.good:
        _converge_again(site, result)


def _converge_again(site: Site, result: Result) -> None:
    done = site.converge()
    if done.rc == IN_SYNC:
        return
    result.repaired = False
    result.notes.append(f"spark-1 is made anew, it does not converge again: {_said(done)}")
    site.one.reset()
    if site.converge().rc:
        raise LabError(f"a new machine does not converge: {_said(done)}")


def _said(report: Report) -> str:
    tail = report.log.strip()[-600:] if report.rc == ERROR and not report.problems else ""
    return f"{report.rc} {report.phrases or ''} {report.problems or ''} {tail}"
