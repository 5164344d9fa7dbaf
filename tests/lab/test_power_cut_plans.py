"""What power cuts start from, as their plan asks for it; no server is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.facts.plans import INSTALL, plan
from walproof.disk.simulated import DiskModel
from walproof.facts import (
    CheckedImage,
    CutConditions,
    CutFacts,
    ImageState,
    Install,
    Plan,
    PowerCuts,
    Variant,
    Workload,
)
from walproof.facts.codec import from_json, to_json
from walproof.lab.kinds.power_cuts.study import CutTable, conditions_of
from walproof.lab.power_cut.cut import CutLab
from walproof.lab.power_cut.kept_image import KeptCase
from walproof.lab.power_cut.trials import PowerCutTrials, prepare_cuts
from walproof.lab.schedule import Unseen
from walproof.lab.trial import Bench
from walproof.postgres.workspace import Workspace
from walproof.workload.ledger import SETTINGS, with_settings


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The options of initdb of each template."""
    options: list[tuple[str, ...]] = []

    def make(
        workspace: Workspace, install: Install, given: Sequence[str], pgbench: Path, workload: Workload | None
    ) -> Path:
        options.append(tuple(given))
        return Path("/templates", *given)

    monkeypatch.setattr("walproof.lab.power_cut.trials.prepare_cut_template", make)
    return options


def _prepared(asked: Plan) -> PowerCutTrials:
    installs = {install.label: install for install in asked.installs}
    nowhere = cast("Workspace", None)
    return prepare_cuts(Bench(asked, nowhere, installs, Path("/pgbench"), {}, Unseen()))


def test_the_self_test_has_checksums_where_no_variant_has_them(
    monkeypatch: pytest.MonkeyPatch, made: list[tuple[str, ...]]
) -> None:
    tested: list[CutLab] = []

    def pass_it(lab: CutLab) -> str:
        tested.append(lab)
        return "passed"

    monkeypatch.setattr("walproof.lab.power_cut.trials.run_self_test", pass_it)
    bare = Variant("no checksums", {}, conditions=CutConditions(checksums=False))
    workload = plan().workloads[0]
    asked = replace(
        plan(),
        kind=PowerCuts(2),
        variants=(bare,),
        baseline=bare.name,
        workloads=(workload, replace(workload, name="other")),
    )
    trials = _prepared(asked)
    assert trials.test_itself() == {"self_test": "passed"}
    assert [lab.template for lab in tested] == [Path("/templates/--wal-segsize=4")], "18 has them by itself"
    assert len(made) == 3, "one more for the self-test"
    assert set(trials.labs) == {
        (INSTALL.label, "w", False), (INSTALL.label, "w", True), (INSTALL.label, "other", False),
    }  # fmt: skip


def test_a_server_that_allows_no_prepared_transactions_allows_the_ledgers() -> None:
    """Patroni writes the line; each session of the ledger failed at its fifth transaction."""
    asked = {"max_prepared_transactions": "0", "fsync": "off"}
    assert with_settings(asked) == {"max_prepared_transactions": "16", "fsync": "off"}
    assert with_settings({"max_prepared_transactions": "100"}) == {"max_prepared_transactions": "100"}
    assert with_settings({}) == SETTINGS


def test_a_case_of_before_is_judged_as_it_was() -> None:
    image = CheckedImage(1, 2, "nothing of 512 B", ImageState.CLEAN, None, 0, 0, None, 0.1)
    cut = CutFacts(1, "wal flush 1", "busy", 0, 1.0, 0, 0, (), (image,))
    case = KeptCase(
        INSTALL, {}, CutConditions(), cut, image, 0, {}, (), has_pgbench_sums=False, has_own_schema=True
    )
    kept = json.loads(to_json(case))
    assert from_json(KeptCase, json.dumps(kept)) == case
    del kept["has_pgbench_sums"], kept["has_own_schema"]
    before = from_json(KeptCase, json.dumps(kept))
    assert (before.has_pgbench_sums, before.has_own_schema) == (True, False)


def test_what_is_written_back_at_once_is_not_what_never_is() -> None:
    assert conditions_of(CutTable(writeback=0.0)).writeback_s == 0.0
    assert DiskModel(writeback_s=0.0).writeback_ns == 1000
    assert DiskModel(writeback_s=0.5).writeback_ns == 500_000_000
    assert conditions_of(CutTable(writeback="never")).writeback_s is None
    assert DiskModel(writeback_s=None).writeback_ns == 0


def test_clusters_have_the_studys_options_of_initdb(made: list[tuple[str, ...]]) -> None:
    options = ("--locale=C", "--wal-segsize", "64", "-k", "--encoding", "UTF8", "--wal-segsize=1")
    _prepared(replace(plan(), kind=PowerCuts(2), initdb_options=options))
    assert made == [("--locale=C", "--encoding", "UTF8", "--wal-segsize=4")]
