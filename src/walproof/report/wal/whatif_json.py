"""Predictions for machines: bytes and seconds under fixed names."""

from __future__ import annotations

import json
from typing import Any

from walproof.analysis.whatif import Prediction, Study
from walproof.analysis.whatif_reasons import prediction_reasons, recording_reasons
from walproof.report.wal.whatif import Asked, settings_text
from walproof.wal.whatif import Target


def whatif_json(study: Study, asked: Asked | None) -> str:
    """Everything that is known. Locations are text; "per hour" is false where the recording tells no time."""
    found = study.found
    recorded = found.recorded
    question = study.question
    data = {
        "version": found.version,
        "system_identifier": str(found.system_identifier),  # 64 bits do not fit a double
        "segment_size": found.segment_size,
        "first_timeline": found.first_timeline,
        "timeline": found.timeline,
        "start": str(found.start),
        "end": str(found.end),
        "finish_reason": found.finish_reason,
        "gaps": [{"start": str(gap.start), "end": str(gap.end)} for gap in found.gaps],
        "per_hour": study.hours is not None,
        "clock": found.clock,
        "recorded": {
            "wal_bytes": found.wal_bytes,
            "seconds": recorded.seconds,
            "records": recorded.records,
            "images": recorded.images,
            "image_bytes": recorded.image_bytes,
            "hint_images": recorded.hint_images,
            "pages": recorded.pages,
            "held_pages": recorded.held_pages,
            "memory_bytes": recorded.memory_bytes,
            "checkpoints": [
                {"redo": str(one.redo), "at": one.at, "is_shutdown": one.is_shutdown}
                for one in recorded.checkpoints
            ],
            "compression": recorded.compression,
            "explained_share": recorded.agreement.share,
            "image_size_error": recorded.agreement.size_error,
        },
        "image_sample": {
            "count": found.sample.count,
            "plain_bytes": found.sample.plain_bytes,
            "methods": {
                name: {"bytes": own.bytes, "cpu_s": own.seconds} for name, own in found.sample.methods.items()
            },
        },
        "reasons": recording_reasons(study),
        "present": {**_settings(question.present), "is_known": question.is_present_known},
        "predictions": [_prediction(one) for one in study.told()],
        "cliffs": [
            {"from_mb": one.smaller.target.max_wal_size_mb, "to_mb": one.larger.target.max_wal_size_mb}
            for one in study.cliffs()
        ],
        "answer": None if asked is None else {
            "is_within": asked.answer.is_within,
            "line": settings_text(asked.answer.prediction.target),
            **_prediction(asked.answer.prediction),
        },
    }  # fmt: skip
    return json.dumps(data, indent=2) + "\n"


def _settings(target: Target) -> dict[str, Any]:
    return {
        "max_wal_size_mb": target.max_wal_size_mb,
        "checkpoint_timeout_s": target.checkpoint_timeout_s,
        "checkpoint_completion_target": target.checkpoint_completion_target,
        "min_wal_size_mb": target.min_wal_size_mb,
        "full_page_writes": target.full_page_writes,
        "wal_compression": target.wal_compression,
        "hint_records": target.hint_records,
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "settings": _settings(one.target),
        "wal_bytes": one.wal_bytes,
        "wal_bytes_low": one.wal_span.low,
        "wal_bytes_high": one.wal_span.high,
        "images": one.images,
        "checkpoints": one.checkpoints,
        "by_size_share": one.by_size_share,
        "spacing_bytes": one.spacing_bytes,
        "spacing_s": one.spacing_s,
        "distance_to_redo_mean": one.distance_mean,
        "distance_to_redo_most": one.distance_most,
        "recovery_s": one.recovery_s,
        "pg_wal_most": one.pg_wal_most,
        "elasticity": one.elasticity,
        "whole_cycles": one.cycles,
        "sample_error": one.sample_error,
        "confidence": one.confidence,
        "reasons": prediction_reasons(one),
    }
