"""Rules about full-page images: compression, and what makes so many of them."""

from __future__ import annotations

from dataclasses import replace

from walproof.advise.server.advice import Advice, AdvisedFigure, Fine, Found, Sure, Unseen, Weight, wal_figure
from walproof.advise.server.case import ServerCase
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.sentences import say_list, say_percent
from walproof.settings.change import Change
from walproof.units import format_bytes
from walproof.wal.whatif import Compression

IMAGE_SHARE = 0.3
"""The share of full-page images in the WAL below which compression has little to do."""
WORTH = 0.1
HINT_SHARE = 0.1
UUID_SHARE = 0.1
"""The share of the WAL that images of indexes on a leading uuid have to reach. Ordered keys, which fill page
after page, cause hardly any."""
_METHODS: tuple[Compression, ...] = ("lz4", "zstd", "pglz")


def wal_compression(case: ServerCase) -> Found | None:
    """wal_compression is off while images are much of the WAL."""
    value, share = case.window.value("wal_compression"), case.image_share
    if value is None:
        return Unseen("wal_compression", case.window.why_unknown("wal_compression"))
    if value != "off":
        return Fine("wal_compression", f"wal_compression is {value}.")
    if share is None or not case.writes:
        return Unseen("wal_compression", case.why_no_wal)
    if share < IMAGE_SHARE:
        return Fine(
            "wal_compression",
            f"{say_percent(share)} of the WAL are full-page images: compression has little to do.",
        )
    evidence = (f"{say_percent(share)} of the WAL are full-page images, and wal_compression is off.",)
    costs = ("CPU for every image, of the process that writes it.",)
    methods = _methods(case)
    study = case.whatif
    if study is None or not study.found.tells_compression:
        return Advice(
            "wal_compression",
            Weight.GAIN,
            f"Set wal_compression = {_word(case, methods[0])}",
            evidence,
            (Change("wal_compression", _word(case, methods[0])),),
            costs=costs,
            sure=Sure.LOW,
            unknown=("how well the pages compress: with REPLICATION images are sampled and compressed",),
        )
    present = study.present
    found = {
        method: study.predictions[replace(study.question.present, wal_compression=method)]
        for method in methods
    }
    # lz4 costs the least CPU: another method has to save a tenth more than it.
    best = min(methods, key=lambda method: found[method].wal_bytes * (1.0 if method == "lz4" else 1.1))
    chosen = found[best]
    saved = 1 - chosen.wal_bytes / present.wal_bytes
    if saved < WORTH:
        return Fine("wal_compression", f"{best} would save {say_percent(max(0.0, saved))} of the WAL.")
    return Advice(
        "wal_compression",
        Weight.GAIN,
        f"Set wal_compression = {_word(case, best)}",
        evidence,
        (Change("wal_compression", _word(case, best)),),
        figures=(wal_figure(study, chosen),),
        costs=costs,
        sure=_sure(chosen, present.wal_bytes),
        unknown=()
        if chosen.has_whole_cycles
        else (
            "how much exactly: the window holds no whole checkpoint cycle of such a server, and the WAL is "
            "an upper bound",
        ),
        benefit=present.wal_bytes - chosen.wal_bytes,
    )


def _methods(case: ServerCase) -> tuple[Compression, ...]:
    """The methods that this build of the server can compress with, least CPU first."""
    setting = case.window.settings["wal_compression"]
    # 14 and older have a boolean, which means pglz; a recording does not say what the build has.
    known = setting.values or ("pglz", "lz4", "zstd")
    if case.major < 15:
        return ("pglz",)
    return tuple(method for method in _METHODS if method in known)


def _sure(chosen: ServerPrediction, present_bytes: float) -> Sure:
    if chosen.wal_span.high >= present_bytes:
        return Sure.LOW
    return {"high": Sure.HIGH, "medium": Sure.MEDIUM, "low": Sure.LOW}[chosen.confidence]


def _word(case: ServerCase, method: Compression) -> str:
    return method if case.major >= 15 else "on"


def _of_hints_alone(case: ServerCase) -> float | None:
    """Share of the WAL that hint bits cost; None if it was not simulated. A hint bit causes the image of a
    page that the next change would otherwise cause, so they have more images than they cost."""
    study = case.whatif
    if study is None:
        return None
    without = study.predictions.get(replace(study.question.present, hint_records=False))
    if without is None or not study.present.wal_bytes:
        return None
    return 1 - without.wal_bytes / study.present.wal_bytes


def random_keys(case: ServerCase) -> Found | None:
    """Indexes whose random keys touch a new page with each row, so that each row costs an image."""
    uuids = [index for index in case.window.indexes if index.has_uuid]
    if not uuids:
        return None
    if case.wal is None or not case.writes:
        return Unseen("random keys", case.why_no_wal)
    total = float(case.wal.accounting.total_bytes)
    costs = {index.name: case.relation_images(index.filenode) or 0.0 for index in uuids}
    costly = sorted((name for name in costs if costs[name] > 0), key=lambda name: -costs[name])
    share = sum(costs.values()) / total
    if share < UUID_SHARE:
        return Fine("random keys", f"Images of indexes on uuid columns make {say_percent(share)} of the WAL.")
    named = say_list([f"{name} ({say_percent(costs[name] / total)})" for name in costly[:3]])
    figures: tuple[AdvisedFigure, ...] = ()
    sure, benefit = Sure.MEDIUM, sum(costs.values()) / max(case.hours, 1e-9)
    if (study := case.whatif) is not None and (ordered := _with_ordered_keys(study)) is not None:
        benefit = study.present.wal_bytes - ordered.wal_bytes
        if (saved := benefit / study.present.wal_bytes) < WORTH:
            return Fine(
                "random keys",
                f"Images of indexes on uuid columns make {say_percent(share)} of the WAL, and keys in order "
                f"would save {say_percent(max(0.0, saved))}.",
            )
        figures = (wal_figure(study, ordered),)
        sure = Sure.MEDIUM if ordered.has_whole_cycles else Sure.LOW
    return Advice(
        "random keys",
        Weight.GAIN,
        "Make new keys in order of time (uuidv7() from 18 on, or in the application)",
        (
            f"Images of indexes that begin with a uuid make {say_percent(share)} of the WAL: {named}.",
            "Keys in random order (uuid v4) touch another page with nearly every row, and after each "
            "checkpoint every page that is touched causes a full-page image.",
        ),
        figures=figures,
        costs=("New keys tell when they were made. Old ones stay.",),
        sure=sure,
        unknown=(
            "whether the keys are random: a uuid that refers to old rows has such images with ordered keys, "
            "too",
        ),
        benefit=benefit,
    )


def _with_ordered_keys(study: Study) -> ServerPrediction | None:
    """The present server if the keys of these indexes came in order; None if that was not simulated."""
    return study.predictions.get(replace(study.question.present, ordered_keys=True))


def hint_images(case: ServerCase) -> Found | None:
    """Images that exist only because a hint bit was set."""
    if case.wal is None or not case.writes:
        return Unseen("hint images", case.why_no_wal)
    images = case.wal.images
    share = images.hint_bytes / max(1, case.wal.accounting.total_bytes)
    if share < HINT_SHARE:
        return Fine("hint images", f"{say_percent(share)} of the WAL are images because of hint bits.")
    alone = _of_hints_alone(case)
    if alone is not None and alone < HINT_SHARE:
        return Fine(
            "hint images",
            f"{say_percent(share)} of the WAL are images because of hint bits, of pages that are changed and "
            f"imaged soon after anyway: without them {say_percent(max(0.0, alone))} less would be written.",
        )
    return Advice(
        "hint images",
        Weight.GAIN,
        "VACUUM tables after they are filled, before others read them",
        (
            f"{images.hint_count} images ({format_bytes(images.hint_bytes)}, {say_percent(share)} of "
            "the WAL) were "
            "written because a reader set a hint bit on a page whose last change was before the checkpoint.",
            "Checksums or wal_log_hints make each of those a full-page image.",
        ),
        steps=(
            "-- after a load, before others read it:",
            "-- VACUUM (FREEZE) TABLE;",
            "-- or, in the transaction that makes or truncates the table: COPY ... WITH (FREEZE)",
        ),
        costs=("The work is the same, done once and at a time of your choice.",),
        sure=Sure.MEDIUM,
        benefit=images.hint_bytes / max(case.hours, 1e-9),
    )
