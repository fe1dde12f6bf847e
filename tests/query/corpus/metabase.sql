-- Metabase qualifies every column with its schema and table, and nests questions as "source".

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT "public"."orders"."category" AS "category", COUNT(distinct "public"."orders"."customer_id") AS "count"
FROM "public"."orders"
GROUP BY "public"."orders"."category"
ORDER BY "public"."orders"."category" ASC

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
SELECT COUNT(*) AS "count" FROM "public"."orders"

-- duckdb: SELECT count(*) FROM orders WHERE ordered_at >= '2026-01-01' AND ordered_at < '2026-04-01'
-- core: SELECT orders_count FROM orders WHERE (ordered_at >= '2026-01-01 00:00:00' AND ordered_at < '2026-04-01 00:00:00')
-- price: 1 unit and 0 calls
SELECT COUNT(*) AS "count" FROM "public"."orders"
WHERE ("public"."orders"."ordered_at" >= timestamp with time zone '2026-01-01 00:00:00.000Z')
  AND ("public"."orders"."ordered_at" < timestamp with time zone '2026-04-01 00:00:00.000Z')

-- core: SELECT CAST(date_trunc('month', ordered_at) AS DATE), orders_count FROM orders WHERE (ordered_at >= '2026-01-01 00:00:00' AND ordered_at < '2026-07-01 00:00:00') GROUP BY CAST(date_trunc('month', ordered_at) AS DATE) ORDER BY orders_count DESC
-- price: 6 units and 0 calls
SELECT CAST(DATE_TRUNC('month', "public"."orders"."ordered_at") AS date) AS "ordered_at", COUNT(*) AS "count"
FROM "public"."orders"
WHERE "public"."orders"."ordered_at" >= TIMESTAMP '2026-01-01 00:00:00' AND "public"."orders"."ordered_at" < TIMESTAMP '2026-07-01 00:00:00'
GROUP BY CAST(DATE_TRUNC('month', "public"."orders"."ordered_at") AS date)
ORDER BY CAST(DATE_TRUNC('month', "public"."orders"."ordered_at") AS date) ASC

-- refused: changes every time
SELECT DATE_TRUNC('month', "public"."orders"."ordered_at") AS "ordered_at", COUNT(distinct "public"."orders"."customer_id") AS "count"
FROM "public"."orders"
WHERE "public"."orders"."ordered_at" >= DATE_TRUNC('month', (NOW() + (INTERVAL '-12 month')))
  AND "public"."orders"."ordered_at" < DATE_TRUNC('month', NOW())
GROUP BY DATE_TRUNC('month', "public"."orders"."ordered_at")

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
SELECT "source"."category" AS "category", "source"."count" AS "count"
FROM (
  SELECT "public"."orders"."category" AS "category", COUNT(*) AS "count"
  FROM "public"."orders"
  GROUP BY "public"."orders"."category"
) AS "source"
WHERE "source"."count" > 150
ORDER BY "source"."count" DESC
LIMIT 1048575

-- core: SELECT category, customers FROM orders WHERE quantity >= 2 GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT "source"."category" AS "category", COUNT(distinct "source"."customer_id") AS "count"
FROM (
  SELECT "public"."orders"."category" AS "category", "public"."orders"."customer_id" AS "customer_id", "public"."orders"."quantity" AS "quantity"
  FROM "public"."orders"
  WHERE "public"."orders"."quantity" > 1
) AS "source"
GROUP BY "source"."category"
ORDER BY "source"."category" ASC

-- core: SELECT CASE WHEN amount < 5.0 THEN 'small' WHEN amount < 20.0 THEN 'medium' ELSE 'large' END, orders_count FROM orders GROUP BY CASE WHEN amount < 5.0 THEN 'small' WHEN amount < 20.0 THEN 'medium' ELSE 'large' END ORDER BY orders_count DESC
-- price: 3 units and 0 calls
SELECT "source"."amount_band" AS "amount_band", COUNT(*) AS "count"
FROM (
  SELECT CASE WHEN "public"."orders"."amount" < 5 THEN 'small' WHEN "public"."orders"."amount" < 20 THEN 'medium' ELSE 'large' END AS "amount_band"
  FROM "public"."orders"
) AS "source"
GROUP BY "source"."amount_band"
ORDER BY "source"."amount_band" ASC

-- core: SELECT orders_count FROM orders WHERE status = 'refunded'
-- price: 1 unit and 0 calls
SELECT SUM(CASE WHEN "public"."orders"."status" = 'refunded' THEN 1 ELSE 0.0 END) AS "refunds"
FROM "public"."orders"

-- refused: not supported yet
SELECT CAST(SUM(CASE WHEN "public"."orders"."status" = 'refunded' THEN 1 ELSE 0.0 END) AS DOUBLE PRECISION) / NULLIF(COUNT(*), 0) AS "share"
FROM "public"."orders"

-- core: SELECT channel, items FROM orders WHERE category = 'Drinks' GROUP BY channel ORDER BY items DESC
-- price: 3 units and 0 calls
SELECT "public"."orders"."channel" AS "channel", SUM("public"."orders"."quantity") AS "sum"
FROM "public"."orders"
WHERE "public"."orders"."category" = 'Drinks'
GROUP BY "public"."orders"."channel"
ORDER BY "sum" DESC, "public"."orders"."channel" ASC

-- core: SELECT channel, AVG(amount) FROM orders GROUP BY channel
-- price: 3 units and 0 calls
SELECT "public"."orders"."channel" AS "channel", AVG("public"."orders"."amount") AS "avg"
FROM "public"."orders"
GROUP BY "public"."orders"."channel"
ORDER BY "public"."orders"."channel" ASC

-- refused: no such name
SELECT "public"."orders"."order_id" AS "order_id", "public"."orders"."product" AS "product"
FROM "public"."orders"
LIMIT 2000

-- core: SELECT region, channel, orders_count FROM orders WHERE (region IS NULL) = TRUE OR region <> 'North' GROUP BY region, channel ORDER BY orders_count DESC
-- price: 3 units and 0 calls
SELECT "public"."orders"."region" AS "region", "public"."orders"."channel" AS "channel", COUNT(*) AS "count"
FROM "public"."orders"
WHERE ("public"."orders"."region" <> 'North' OR "public"."orders"."region" IS NULL)
GROUP BY "public"."orders"."region", "public"."orders"."channel"
ORDER BY "public"."orders"."region" ASC, "public"."orders"."channel" ASC

-- core: SELECT product, orders_count FROM orders WHERE (lower(product) LIKE '%tea%') = TRUE GROUP BY product ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT "public"."orders"."product" AS "product", COUNT(*) AS "count"
FROM "public"."orders"
WHERE (LOWER("public"."orders"."product") LIKE '%tea%')
GROUP BY "public"."orders"."product"
ORDER BY "count" DESC, "public"."orders"."product" ASC

-- core: SELECT product, orders_count FROM orders WHERE (lower(product) LIKE '%tea%') <> TRUE AND (starts_with(product, 'B')) = TRUE GROUP BY product ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT "public"."orders"."product" AS "product", COUNT(*) AS "count"
FROM "public"."orders"
WHERE NOT (LOWER("public"."orders"."product") LIKE '%tea%') AND ("public"."orders"."product" LIKE 'B%')
GROUP BY "public"."orders"."product"
ORDER BY "public"."orders"."product" ASC

-- core: SELECT coupon, orders_count FROM orders WHERE (coupon IS NULL) <> TRUE AND ((coupon IS NULL) = TRUE OR coupon <> '') GROUP BY coupon ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT "public"."orders"."coupon" AS "coupon", COUNT(*) AS "count"
FROM "public"."orders"
WHERE "public"."orders"."coupon" IS NOT NULL AND ("public"."orders"."coupon" <> '' OR "public"."orders"."coupon" IS NULL)
GROUP BY "public"."orders"."coupon"
ORDER BY "public"."orders"."coupon" ASC

-- core: SELECT floor(amount / 12.5) * 12.5, orders_count FROM orders WHERE amount <= 30 GROUP BY floor(amount / 12.5) * 12.5 ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT FLOOR(("public"."orders"."amount" / 12.5)) * 12.5 AS "amount", COUNT(*) AS "count"
FROM "public"."orders"
WHERE "public"."orders"."amount" <= 30
GROUP BY FLOOR(("public"."orders"."amount" / 12.5)) * 12.5
ORDER BY FLOOR(("public"."orders"."amount" / 12.5)) * 12.5 ASC

-- core: SELECT extract(dow FROM ordered_at) + 1, orders_count FROM orders GROUP BY extract(dow FROM ordered_at) + 1 ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT CAST(EXTRACT(dow FROM "public"."orders"."ordered_at") AS integer) + 1 AS "weekday", COUNT(*) AS "count"
FROM "public"."orders"
GROUP BY CAST(EXTRACT(dow FROM "public"."orders"."ordered_at") AS integer) + 1
ORDER BY CAST(EXTRACT(dow FROM "public"."orders"."ordered_at") AS integer) + 1 ASC

-- core: SELECT extract(hour FROM ordered_at), orders_count FROM orders GROUP BY extract(hour FROM ordered_at) ORDER BY orders_count DESC
-- price: 24 units and 0 calls
SELECT CAST(EXTRACT(hour FROM "public"."orders"."ordered_at") AS integer) AS "hour", COUNT(*) AS "count"
FROM "public"."orders"
GROUP BY CAST(EXTRACT(hour FROM "public"."orders"."ordered_at") AS integer)
ORDER BY CAST(EXTRACT(hour FROM "public"."orders"."ordered_at") AS integer) ASC

-- core: SELECT lookup(product_id, products.department), orders_count FROM orders GROUP BY lookup(product_id, products.department) ORDER BY orders_count DESC
-- price: 6 units and 0 calls
SELECT "Products"."department" AS "Products__department", COUNT(*) AS "count"
FROM "public"."orders"
LEFT JOIN "public"."products" AS "Products" ON "public"."orders"."product_id" = "Products"."product_id"
GROUP BY "Products"."department"
ORDER BY "Products"."department" ASC

-- price: free
SELECT "public"."orders"."category" AS "category" FROM "public"."orders" GROUP BY "public"."orders"."category" ORDER BY "public"."orders"."category" ASC LIMIT 1000

-- refused: lists people
SELECT "public"."orders"."city" AS "city" FROM "public"."orders" GROUP BY "public"."orders"."city" ORDER BY "public"."orders"."city" ASC LIMIT 5000

-- refused: not supported yet
SELECT COUNT(distinct "public"."orders"."city") AS "count" FROM "public"."orders"

-- core: SELECT COUNT(rating) FROM orders
-- price: 1 unit and 0 calls
SELECT COUNT("public"."orders"."rating") AS "count" FROM "public"."orders"

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
SELECT COUNT("public"."orders"."customer_id") AS "count" FROM "public"."orders"

-- refused: not supported yet
SELECT MIN("public"."orders"."ordered_at") AS "min", MAX("public"."orders"."ordered_at") AS "max" FROM "public"."orders"

-- core: SELECT QUANTILE_CONT(amount, 0.9) FROM orders
-- price: 1 unit and 0 calls
SELECT PERCENTILE_CONT(0.9) within group (order by "public"."orders"."amount") AS "percentile" FROM "public"."orders"

-- core: SELECT STDDEV_POP(amount) FROM orders
-- price: 1 unit and 0 calls
SELECT STDDEV_POP("public"."orders"."amount") AS "stddev" FROM "public"."orders"

-- The answer of a question with a share of its total, and one with a running total.

-- core: SELECT region, orders_count FROM orders GROUP BY region ORDER BY orders_count DESC
-- price: 1 unit and 0 calls
SELECT "source"."region" AS "region", "source"."count" AS "count", SUM("source"."count") OVER (ORDER BY "source"."region" ASC ROWS UNBOUNDED PRECEDING) AS "sum"
FROM (SELECT "region" AS "region", COUNT(*) AS "count" FROM "orders" GROUP BY "region") AS "source"
ORDER BY "source"."region" ASC

-- core: SELECT status, orders_count FROM orders GROUP BY status ORDER BY orders_count DESC
-- price: 3 units and 0 calls
SELECT "source"."status" AS "status", CAST("source"."count" AS float) / NULLIF(SUM("source"."count") OVER (), 0) AS "share"
FROM (SELECT "status", COUNT(*) AS "count" FROM "orders" GROUP BY "status") AS "source"
ORDER BY 1

-- core: SELECT page, visitors FROM visits WHERE (started >= '2026-05-01 00:00:00' AND started <= '2026-05-31 23:59:59') AND (substr(page, 1, 5)) = '/docs' GROUP BY page ORDER BY visitors DESC
-- price: 1 unit and 1 call
SELECT "visits"."page" AS "page", COUNT(distinct "visits"."visitor_id") AS "count"
FROM "visits"
WHERE "visits"."started" BETWEEN TIMESTAMP '2026-05-01 00:00:00' AND TIMESTAMP '2026-05-31 23:59:59'
  AND SUBSTRING("visits"."page", 1, 5) = '/docs'
GROUP BY "visits"."page"
ORDER BY "count" DESC, "visits"."page" ASC

-- price: free
SELECT 1
