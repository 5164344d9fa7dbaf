"""Predicted recoveries as JSON, under fixed names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from walproof.analysis.forecast import Forecast
from walproof.analysis.recovery_costs import ColdRedo, RecoveryPrediction
from walproof.wal.recovery import PAGE_BYTES


def recovery_json(forecast: Forecast) -> str:
    """Everything that is known, under fixed names."""
    analysis, coefficients = forecast.analysis, forecast.coefficients
    work = analysis.last
    data = {
        "version": analysis.version,
        "system_identifier": str(analysis.system_identifier),  # 64 bits do not fit a double
        "timeline": analysis.timeline,
        "redo": str(work.start),
        "end": str(work.end),
        "finish_reason": analysis.finish_reason,
        "gaps": [{"start": str(gap.start), "end": str(gap.end)} for gap in analysis.gaps],
        "wal_bytes": work.wal_bytes,
        "records": work.records,
        "references": work.references,
        "done": work.done,
        "pages": work.pages,
        "relations_dropped": work.relations_dropped,
        "truncations": work.truncations,
        "coefficients": {
            "source": coefficients.source,
            "cpu_us": dict(coefficients.cpu_us),
            "cold_us": dict(coefficients.cold_us),
            "checkpoint_us": dict(coefficients.checkpoint_us),
            "band": coefficients.band,
            "cold_band": coefficients.cold_band,
        },
        "disk": asdict(forecast.disk),
        "predictions": _predictions(forecast.predictions),
        "notes": list(forecast.notes),
    }
    return json.dumps(data, indent=2) + "\n"


def _predictions(predictions: Sequence[RecoveryPrediction]) -> list[dict[str, Any]]:
    return [
        {
            "shared_buffers_bytes": prediction.buffers * PAGE_BYTES,
            "warm_redo_s": prediction.warm_s,
            "cold_redo_s": _cold(prediction.cold),
            "cold_redo_prefetch_off_s": _cold(prediction.cold_off),
            "checkpoint_s": prediction.checkpoint_s,
            "checkpoint_cold_s": prediction.cold_checkpoint_s,
            "host_memory_s": prediction.host_s,
            "host_memory_cold_s": prediction.cold_host_s,
            "total_warm_s": prediction.total_s,
            "total_warm_low_s": prediction.band(prediction.total_s)[0],
            "total_warm_high_s": prediction.band(prediction.total_s)[1],
            "total_cold_s": prediction.cold_total_s(),
            "total_cold_low_s": prediction.band(prediction.cold_total_s(), is_cold=True)[0],
            "total_cold_high_s": prediction.band(prediction.cold_total_s(), is_cold=True)[1],
            "total_cold_prefetch_off_s": prediction.cold_total_s(prefetch=False),
            "dominating": prediction.dominating.name,
            "terms_s": dict(prediction.terms_s),
            "quantities": prediction.work.quantities(prediction.buffers),
            "checkpoint": prediction.work.checkpoint(prediction.buffers),
        }
        for prediction in predictions
    ]


def _cold(cold: ColdRedo) -> dict[str, Any]:
    return {
        "redo_s": cold.redo_s, "cpu_s": cold.cpu_s, "disk_s": cold.disk_s, "pages": cold.pages,
        "requests": cold.requests, "bytes": cold.bytes,
    }  # fmt: skip
