"""Applications to make loads of: one that was read from a server, and tables made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from walproof.advise.workload.draft import Draft, DraftOrder, draft
from walproof.facts.application import AppColumn, AppIndex, AppKey, Application, AppStatement, AppTable
from walproof.facts.codec import from_json


def tickets() -> Application:
    """What was read of the tickets application (bench/workload/apps): 17.10, 8 s, 400 scripts a second."""
    return from_json(Application, (Path(__file__).parent / "tickets.json").read_text(encoding="utf-8"))


def column(
    name: str,
    type_: str,
    *,
    not_null: bool = False,
    default: str | None = None,
    is_identity: bool = False,
    labels: tuple[str, ...] | None = None,
    distinct: float | None = -1.0,
    correlation: float | None = 0.0,
    null_share: float = 0.0,
) -> AppColumn:
    return AppColumn(
        name, type_, not_null, default, is_identity, False, labels, distinct, null_share, 20, correlation
    )


def table(
    name: str,
    *columns: AppColumn,
    rows: int = 10_000,
    keys: tuple[AppKey, ...] = (),
    indexes: tuple[AppIndex, ...] = (),
    triggers: tuple[str, ...] = (),
    schema: str = "public",
) -> AppTable:
    return AppTable(
        schema, name, f"{schema}.{name}", "r", rows, rows * 100, columns, keys, indexes, "", triggers,
        heap_pages=rows // 80,
    )  # fmt: skip


def primary(*names: str) -> AppKey:
    return AppKey("p", names, f"PRIMARY KEY ({', '.join(names)})")


def foreign(name: str, other: str, key: str = "id") -> AppKey:
    return AppKey("f", (name,), f"FOREIGN KEY ({name}) REFERENCES {other}({key})", other, (key,))


def statement(
    query: str, calls: float = 1000.0, rows: float | None = None, wal: float = 100.0
) -> AppStatement:
    return AppStatement(query, calls, calls if rows is None else rows, calls, 0.0, wal * calls)


def application(
    tables: tuple[AppTable, ...],
    *statements: AppStatement,
    commits: float | None = None,
    functions: tuple[str, ...] = (),
) -> Application:
    return Application(170000, "shop", 10.0, statements, tables, 8, commits, functions=functions)


ORDER = DraftOrder("shop", 1 << 30, 20)
ID = column("id", "bigint", not_null=True, is_identity=True, correlation=1.0)
PARENTS = table("parents", ID, column("name", "text"), keys=(primary("id"),))


def made(*statements: str, tables: tuple[AppTable, ...], commits: float | None = None) -> Draft:
    return draft(application(tables, *map(statement, statements), commits=commits), ORDER)


def only_script(found: Draft) -> str:
    (name,) = found.scripts
    return found.files[name]


def baskets() -> Application:
    """A shop: orders of 2.5 items in the mean, inserted one by one, and each product's stock is changed."""
    products = table("products", ID, column("stock", "integer"), keys=(primary("id"),))
    orders = table("orders", ID, column("note", "text"), keys=(primary("id"),))
    items = table(
        "items", ID, column("order_id", "bigint", not_null=True, distinct=-0.3),
        column("product", "bigint", not_null=True), rows=30_000,
        keys=(
            primary("id"), foreign("order_id", "public.orders"), foreign("product", "public.products"),
        ),
    )  # fmt: skip
    item = statement("INSERT INTO items (order_id, product) VALUES ($1, $2)", 2500.0)
    return application(
        (products, orders, items),
        statement("INSERT INTO orders (note) VALUES ($1) RETURNING id", 1000.0),
        # Its row, an index and two locks are four; six of ten items do not lock their order again.
        replace(item, wal_records=2500 * 3.4),
        statement("UPDATE products SET stock = stock - $1 WHERE id = $2", 2500.0),
        commits=1000.0,
    )


def of_tenants(shop: Application) -> Application:
    """The shop with a tenant of each order and each item: the order locks it, and no item again."""
    tenants = table("tenants", ID, column("name", "text"), keys=(primary("id"),))
    tenant, key = column("tenant", "bigint", not_null=True), foreign("tenant", "public.tenants")

    def with_tenant(each: AppTable) -> AppTable:
        return replace(each, columns=(*each.columns, tenant), keys=(*each.keys, key))

    products, orders, items = shop.tables
    _, item, stock = shop.statements
    return replace(
        shop,
        tables=(tenants, products, with_tenant(orders), with_tenant(items)),
        statements=(
            statement("INSERT INTO orders (tenant, note) VALUES ($1, $2) RETURNING id", 1000.0),
            replace(item, query="INSERT INTO items (order_id, tenant, product) VALUES ($1, $2, $3)"),
            stock,
        ),
    )
