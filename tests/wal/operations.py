"""Every operation that a server of a version writes: what a load has to reach to have been compared."""

from __future__ import annotations

_ALWAYS = {
    "XLOG": "CHECKPOINT_SHUTDOWN CHECKPOINT_ONLINE NEXTOID SWITCH BACKUP_END PARAMETER_CHANGE RESTORE_POINT"
    " FPW_CHANGE END_OF_RECOVERY FPI_FOR_HINT FPI OVERWRITE_CONTRECORD",
    "Transaction": "COMMIT PREPARE ABORT COMMIT_PREPARED ABORT_PREPARED ASSIGNMENT",
    "Storage": "CREATE TRUNCATE",
    "CLOG": "ZEROPAGE TRUNCATE",
    "Tablespace": "CREATE DROP",
    "MultiXact": "ZERO_OFF_PAGE ZERO_MEM_PAGE CREATE_ID TRUNCATE_ID",
    "RelMap": "UPDATE",
    "Standby": "LOCK RUNNING_XACTS INVALIDATIONS",
    "Heap2": "REWRITE MULTI_INSERT LOCK_UPDATED NEW_CID MULTI_INSERT+INIT",
    "Heap": "INSERT DELETE UPDATE TRUNCATE HOT_UPDATE HEAP_CONFIRM LOCK INPLACE INSERT+INIT UPDATE+INIT",
    "Btree": "INSERT_LEAF INSERT_UPPER INSERT_META SPLIT_L SPLIT_R INSERT_POST DEDUP DELETE UNLINK_PAGE"
    " UNLINK_PAGE_META NEWROOT MARK_PAGE_HALFDEAD VACUUM REUSE_PAGE META_CLEANUP",
    "Hash": "INIT_META_PAGE INIT_BITMAP_PAGE INSERT ADD_OVFL_PAGE SPLIT_ALLOCATE_PAGE SPLIT_PAGE"
    " SPLIT_COMPLETE MOVE_PAGE_CONTENTS SQUEEZE_PAGE DELETE SPLIT_CLEANUP UPDATE_META_PAGE VACUUM_ONE_PAGE",
    "Gin": "CREATE_PTREE INSERT SPLIT VACUUM_PAGE DELETE_PAGE UPDATE_META_PAGE INSERT_LISTPAGE"
    " DELETE_LISTPAGE VACUUM_DATA_LEAF_PAGE",
    "Gist": "PAGE_UPDATE DELETE PAGE_REUSE PAGE_SPLIT PAGE_DELETE",
    "Sequence": "LOG",
    "SPGist": "ADD_LEAF MOVE_LEAFS ADD_NODE SPLIT_TUPLE PICKSPLIT VACUUM_LEAF VACUUM_ROOT VACUUM_REDIRECT",
    "BRIN": "CREATE_INDEX INSERT UPDATE SAMEPAGE_UPDATE REVMAP_EXTEND DESUMMARIZE INSERT+INIT UPDATE+INIT",
    "CommitTs": "ZEROPAGE TRUNCATE",
    "ReplicationOrigin": "SET DROP",
    "Generic": "Generic",
    "LogicalMessage": "MESSAGE",
}
_BETWEEN = {
    "Database/CREATE": (13, 14),
    "Database/CREATE_FILE_COPY": (15, 19),
    "Database/CREATE_WAL_LOG": (15, 19),
    "Database/DROP": (13, 19),
    "Gist/ASSIGN_LSN": (13, 18),
    "Heap2/CLEAN": (13, 13),
    "Heap2/CLEANUP_INFO": (13, 13),
    "Heap2/PRUNE": (14, 16),
    "Heap2/VACUUM": (14, 16),
    "Heap2/FREEZE_PAGE": (13, 16),
    "Heap2/PRUNE_ON_ACCESS": (17, 19),
    "Heap2/PRUNE_VACUUM_SCAN": (17, 19),
    "Heap2/PRUNE_VACUUM_CLEANUP": (17, 19),
    "Heap2/VISIBLE": (13, 18),
    "Transaction/INVALIDATION": (14, 19),
    "XLOG/ASSIGN_LSN": (19, 19),
    "XLOG/CHECKPOINT_REDO": (17, 19),
    "XLOG/LOGICAL_DECODING_STATUS_CHANGE": (19, 19),
}
"""Operation -> the first and the last version that has it."""


def operations_of(major: int) -> frozenset[str]:
    """``Heap/INSERT`` and so on, as pg_waldump of that version names them.

    Without those that no server writes: XLOG/NOOP, Heap/HOT_UPDATE+INIT (a HOT update never begins a page)
    and CommitTs/SETTS (13; nothing in that version asks for it).
    """
    always = {f"{rmgr}/{name}" for rmgr, names in _ALWAYS.items() for name in names.split()}
    return frozenset(always | {name for name, (first, last) in _BETWEEN.items() if first <= major <= last})


def resource_managers_of(major: int) -> frozenset[str]:
    """The names before the slash."""
    return frozenset(operation.partition("/")[0] for operation in operations_of(major))
