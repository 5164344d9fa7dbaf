\set tenant random(1, 5000)
\set count random(1, 4)
\set product random(1, 20000)
\set next4909 1 + (:product + 4909) % 20000
\set next9818 1 + (:product + 9818) % 20000
\set next14727 1 + (:product + 14727) % 20000
BEGIN;
INSERT INTO orders (tenant, total) VALUES (:tenant, 0) RETURNING id AS order_id \gset
INSERT INTO items (order_id, tenant, product, price) VALUES (:order_id, :tenant, :product, 9.9);
\if :count >= 2
INSERT INTO items (order_id, tenant, product, price) VALUES (:order_id, :tenant, :next4909, 9.9);
\endif
\if :count >= 3
INSERT INTO items (order_id, tenant, product, price) VALUES (:order_id, :tenant, :next9818, 9.9);
\endif
\if :count >= 4
INSERT INTO items (order_id, tenant, product, price) VALUES (:order_id, :tenant, :next14727, 9.9);
\endif
COMMIT;
