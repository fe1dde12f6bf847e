-- Power BI wraps its native queries in "_" and "$Table", asks for TOP rows as LIMIT 501 or 1000001, and checks for NULL.

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
select "_"."category" as "c1",
    count(distinct "_"."customer_id") as "a0"
from "main"."orders" "_"
group by "_"."category"
limit 1000001

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select "rows"."category" as "category",
    count(1) as "a0"
from (
    select "_"."category"
    from "orders" as "_"
) as "rows"
group by "category"

-- core: SELECT region, customers FROM orders WHERE status = 'paid' GROUP BY region ORDER BY customers DESC LIMIT 100
-- price: 1 unit and 0 calls
select "rows"."region" as "region",
    count(distinct("rows"."customer_id")) as "C1"
from (
    select "region", "customer_id"
    from "main"."orders" "$Table"
    where "status" = 'paid'
) "rows"
group by "region"
limit 1001

-- core: SELECT region, customers FROM orders GROUP BY region ORDER BY customers DESC
-- price: 1 unit and 0 calls
select "_"."region", "_"."C1"
from (
    select "rows"."region" as "region", count(distinct("rows"."customer_id")) as "C1"
    from "orders" "rows"
    group by "region"
) "_"
where not "_"."C1" is null
limit 1001

-- core: SELECT region, items FROM orders GROUP BY region ORDER BY items DESC
-- price: 1 unit and 0 calls
select "_"."region" as "c5", "_"."a0" as "a0"
from (
    select "region", sum("quantity") as "a0"
    from "orders"
    group by "region"
) "_"
where not "a0" is null
order by "_"."a0" desc, "_"."region"
limit 501

-- core: SELECT orders_count FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01')
-- price: 1 unit and 0 calls
select count(1) as "a0" from "orders" "_" where "_"."order_date" >= '2026-01-01 00:00:00' and "_"."order_date" < '2026-07-01 00:00:00'

-- core: SELECT customers FROM orders WHERE (ordered_at >= '2026-01-01 00:00:00' AND ordered_at < '2026-02-01 00:00:00')
-- price: 1 unit and 0 calls
select count(distinct "_"."customer_id") as "a0" from "orders" "_" where "_"."ordered_at" >= timestamp '2026-01-01 00:00:00' and "_"."ordered_at" < timestamp '2026-02-01 00:00:00'

-- refused: not supported yet
select "_"."category", sum(cast("_"."amount" as decimal)) as "a0"
from "orders" "_"
group by "_"."category"

-- core: SELECT category, AVG(rating) FROM orders GROUP BY category
-- price: 6 units and 0 calls
select "_"."category", avg(cast("_"."rating" as double)) as "a0"
from "orders" "_"
group by "_"."category"

-- refused: not supported yet
select min("_"."order_date") as "a0", max("_"."order_date") as "a1" from "orders" "_"

-- price: free
select distinct "_"."region" as "region" from "orders" "_"

-- refused: values are private
select distinct "_"."city" as "city" from "orders" "_" limit 101

-- price: free
select "_"."region" as "region" from "orders" "_" group by "_"."region" order by "_"."region" limit 101

-- refused: lists people
select * from "orders" "_" limit 1000

-- refused: no such name
select "$Table"."order_id" as "order_id", "$Table"."customer_id" as "customer_id" from "main"."orders" "$Table" limit 4096

-- core: SELECT extract(year FROM order_date), extract(month FROM order_date), customers FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01') GROUP BY extract(year FROM order_date), extract(month FROM order_date) ORDER BY customers DESC
-- price: 6 units and 0 calls
select "rows"."year" as "year", "rows"."month" as "month", count(distinct("rows"."customer_id")) as "people"
from (
    select year("_"."order_date") as "year", month("_"."order_date") as "month", "_"."customer_id" as "customer_id"
    from "orders" "_"
    where "_"."order_date" >= date '2026-01-01' and "_"."order_date" <= date '2026-06-30'
) "rows"
group by "year", "month"
order by "year", "month"

-- core: SELECT category, customers FROM orders WHERE channel = 'web' GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
select "_"."category", count(distinct case when "_"."channel" = 'web' then "_"."customer_id" end) as "web"
from "orders" "_"
group by "_"."category"

-- refused: not supported yet
select "_"."category",
    count(distinct case when "_"."channel" = 'web' then "_"."customer_id" end) as "web",
    count(distinct case when "_"."channel" = 'store' then "_"."customer_id" end) as "store"
from "orders" "_"
group by "_"."category"

-- core: SELECT orders_count FROM orders WHERE status = 'refunded'
-- price: 1 unit and 0 calls
select sum(case when "_"."status" = 'refunded' then 1 else 0 end) as "a0" from "orders" "_"

-- refused: not supported yet
select sum(case when "_"."status" = 'refunded' then 1 else 0 end) / count(1) as "a0" from "orders" "_"

-- core: SELECT rating, orders_count FROM orders WHERE (rating IS NULL) <> TRUE AND (rating >= 4 AND rating < 6) GROUP BY rating ORDER BY orders_count DESC
-- price: 2 units and 0 calls
select "_"."rating" as "rating", count(1) as "a0" from "orders" "_" where "_"."rating" is not null and ("_"."rating" = 4 or "_"."rating" = 5) group by "_"."rating"

-- core: SELECT category, customers FROM orders WHERE ((category IS NULL) <> TRUE AND category = 'Bakery') OR ((category IS NULL) <> TRUE AND category = 'Drinks') GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
select "_"."category", count(distinct "_"."customer_id") as "a0"
from "orders" "_"
where ("_"."category" = 'Drinks' and "_"."category" is not null) or ("_"."category" = 'Bakery' and "_"."category" is not null)
group by "_"."category"

-- core: SELECT coalesce(coupon, '(Blank)'), customers FROM orders GROUP BY coalesce(coupon, '(Blank)') ORDER BY customers DESC
-- price: 201 units and 1 call
select coalesce("_"."coupon", '(Blank)') as "coupon", count(distinct "_"."customer_id") as "a0"
from "orders" "_"
group by coalesce("_"."coupon", '(Blank)')

-- core: SELECT product, customers FROM orders GROUP BY product ORDER BY customers DESC
-- price: 201 units and 1 call
select "t"."product", "t"."a0", rank() over (order by "t"."a0" desc) as "place"
from (select "product", count(distinct "customer_id") as "a0" from "orders" group by "product") "t"
order by "place", "product"
limit 10

-- core: SELECT lookup(product_id, products.department), customers FROM orders GROUP BY lookup(product_id, products.department) ORDER BY customers DESC
-- price: 6 units and 0 calls
select "OTBL"."department", count(distinct "ITBL"."customer_id") as "a0"
from "orders" "ITBL"
left outer join "products" "OTBL" on ("ITBL"."product_id" = "OTBL"."product_id")
group by "OTBL"."department"

-- duckdb: select 'main', unnest(['orders', 'products', 'visits']), 'BASE TABLE'
-- price: free
select table_schema, table_name, table_type from information_schema.tables where table_schema not in ('information_schema', 'pg_catalog') order by table_schema, table_name

-- duckdb: none
-- price: free
select column_name, ordinal_position, is_nullable, data_type from information_schema.columns where table_schema = 'main' and table_name = 'visits' order by ordinal_position

-- refused: no such name
select character_set_name from information_schema.character_sets

-- refused: lists people
select 1 as "c1" from "orders" "_" where 1 = 0

-- duckdb: select category, quantile_disc(amount, 0.99) from orders group by category
-- core: SELECT category, QUANTILE_CONT(amount, 0.99) FROM orders GROUP BY category
-- price: 6 units and 0 calls
select "_"."category", max("_"."amount") as "a0" from "orders" "_" group by "_"."category"

-- duckdb: select var_pop(amount) from orders
-- core: SELECT VAR_POP(amount) FROM orders
-- price: 1 unit and 0 calls
select variance("_"."amount") as "a0" from "orders" "_"

-- core: SELECT category, region, items, orders_count FROM orders GROUP BY category, region ORDER BY items DESC
-- price: 12 units and 0 calls
select "_"."category", "_"."region", sum("_"."quantity") as "a0", count(1) as "a1"
from "orders" "_"
group by "_"."category", "_"."region"
