-- Tableau names every column in quotes, gives every output an alias, and groups by ordinals.

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT "orders"."category" AS "category",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT region, segment, customers FROM orders WHERE status = 'paid' GROUP BY region, segment ORDER BY customers DESC
-- price: 1 unit and 0 calls
SELECT "orders"."region" AS "region",
  "orders"."segment" AS "segment",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "main"."orders" "orders"
WHERE ("orders"."status" = 'paid')
GROUP BY 1,
  2
ORDER BY 3 DESC

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
SELECT COUNT(1) AS "cnt:orders:ok"
FROM "orders"
HAVING (COUNT(1) > 0)

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
SELECT SUM(1) AS "sum:Number of Records:ok"
FROM "orders"
HAVING (COUNT(1) > 0)

-- core: SELECT "Ship Mode", orders_count FROM orders GROUP BY "Ship Mode" ORDER BY orders_count DESC
-- price: 4 units and 0 calls
SELECT "orders"."Ship Mode" AS "Ship Mode",
  SUM(1) AS "sum:Number of Records:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT "Ship Mode", items FROM orders GROUP BY "Ship Mode" ORDER BY items DESC
-- price: 4 units and 0 calls
SELECT "orders"."Ship Mode" AS "Ship Mode",
  SUM(CAST("orders"."quantity" AS BIGINT)) AS "sum:quantity:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT category, items FROM orders GROUP BY category ORDER BY items DESC
-- price: 6 units and 0 calls
SELECT "orders"."category" AS "category",
  SUM("orders"."quantity") AS "sum:quantity:ok"
FROM "orders"
GROUP BY 1
HAVING (SUM("orders"."quantity") > 100)
ORDER BY 2 DESC

-- core: SELECT date_trunc('month', order_date), customers FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01') GROUP BY date_trunc('month', order_date) ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT DATE_TRUNC('MONTH', "orders"."order_date") AS "tmn:order_date:ok",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
WHERE (("orders"."order_date" >= DATE '2026-01-01') AND ("orders"."order_date" <= DATE '2026-06-30'))
GROUP BY 1

-- core: SELECT extract(year FROM order_date), customers FROM orders GROUP BY extract(year FROM order_date) ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT EXTRACT(YEAR FROM "orders"."order_date") AS "yr:order_date:ok",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT extract(quarter FROM order_date), extract(year FROM order_date), customers FROM orders GROUP BY extract(quarter FROM order_date), extract(year FROM order_date) ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT CAST(EXTRACT(QUARTER FROM "orders"."order_date") AS BIGINT) AS "qr:order_date:ok",
  CAST(EXTRACT(YEAR FROM "orders"."order_date") AS BIGINT) AS "yr:order_date:ok",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1,
  2

-- core: SELECT CAST(ordered_at AS DATE), orders_count FROM orders WHERE (ordered_at >= '2026-05-01 00:00:00' AND ordered_at < '2026-06-01 00:00:00') GROUP BY CAST(ordered_at AS DATE) ORDER BY orders_count DESC
-- price: 31 units and 0 calls
SELECT CAST("orders"."ordered_at" AS DATE) AS "Calculation_1",
  COUNT(1) AS "cnt"
FROM "orders"
WHERE (("orders"."ordered_at" >= TIMESTAMP '2026-05-01 00:00:00') AND ("orders"."ordered_at" < TIMESTAMP '2026-06-01 00:00:00'))
GROUP BY 1

-- core: SELECT CASE WHEN 3 <= quantity THEN 'bulk' ELSE 'single' END, customers FROM orders GROUP BY CASE WHEN 3 <= quantity THEN 'bulk' ELSE 'single' END ORDER BY customers DESC
-- price: 2 units and 0 calls
SELECT (CASE WHEN ("orders"."quantity" >= 3) THEN 'bulk' ELSE 'single' END) AS "Calculation_2",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT CASE WHEN region IN ('East', 'North') THEN 'NE' WHEN region IN ('South', 'West') THEN 'SW' ELSE NULL END, customers FROM orders GROUP BY CASE WHEN region IN ('East', 'North') THEN 'NE' WHEN region IN ('South', 'West') THEN 'SW' ELSE NULL END ORDER BY customers DESC
-- price: 2 units and 0 calls
SELECT (CASE WHEN ("orders"."region" IN ('North', 'East')) THEN 'NE' WHEN ("orders"."region" IN ('South', 'West')) THEN 'SW' ELSE NULL END) AS "Region (group)",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1
ORDER BY 1 ASC

-- core: SELECT product, customers FROM orders WHERE (product LIKE '%Tea%') = TRUE GROUP BY product ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT "orders"."product" AS "product",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
WHERE ("orders"."product" LIKE '%Tea%')
GROUP BY 1

-- core: SELECT product, customers FROM orders GROUP BY product ORDER BY customers DESC LIMIT 5
-- price: 11 units and 1 call
SELECT "orders"."product" AS "product",
  COUNT(DISTINCT "orders"."customer_id") AS "$__alias__0"
FROM "orders"
GROUP BY 1
ORDER BY 2 DESC
LIMIT 5

-- refused: lists people
SELECT "orders"."city" AS "city"
FROM "orders"
GROUP BY 1

-- price: free
SELECT "orders"."category" AS "category"
FROM "orders"
GROUP BY 1

-- price: free
SELECT DISTINCT "orders"."category" AS "category"
FROM "orders"

-- core: SELECT AVG(amount), orders_count FROM orders
-- price: 2 units and 0 calls
SELECT AVG("orders"."amount") AS "avg:amount:ok"
FROM "orders"
HAVING (COUNT(1) > 0)

-- core: SELECT category, AVG(amount) FROM orders GROUP BY category
-- price: 6 units and 0 calls
SELECT "orders"."category" AS "category",
  AVG("orders"."amount") AS "avg:amount:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT category, SUM(amount) FROM orders GROUP BY category ORDER BY SUM(amount) DESC
-- price: 6 units and 0 calls
SELECT "orders"."category" AS "category",
  SUM("orders"."amount") AS "sum:amount:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT category, SUM(amount), customers FROM orders GROUP BY category ORDER BY SUM(amount) DESC
-- price: 12 units and 0 calls
SELECT "orders"."category" AS "category",
  SUM("orders"."amount") AS "sum:amount:ok",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1

-- refused: not supported yet
SELECT MIN("orders"."order_date") AS "min:order_date:ok",
  MAX("orders"."order_date") AS "max:order_date:ok"
FROM "orders"
HAVING (COUNT(1) > 0)

-- duckdb: SELECT quantile_disc(amount, 0.01), quantile_disc(amount, 0.99) FROM orders
-- core: SELECT QUANTILE_CONT(amount, 0.01), QUANTILE_CONT(amount, 0.99) FROM orders
-- price: 2 units and 0 calls
SELECT MIN("orders"."amount") AS "TEMP(TC_)(1)",
  MAX("orders"."amount") AS "TEMP(TC_)(2)"
FROM "orders"

-- core: SELECT category, customers FROM orders WHERE status = 'paid' GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT "Custom SQL Query"."category" AS "category",
  COUNT(DISTINCT "Custom SQL Query"."customer_id") AS "ctd:customer_id:ok"
FROM (
  SELECT * FROM orders WHERE status = 'paid'
) "Custom SQL Query"
GROUP BY 1

-- core: SELECT extract(month FROM order_date), category, customers FROM orders GROUP BY extract(month FROM order_date), category ORDER BY customers DESC
-- price: 72 units and 0 calls
SELECT "Custom SQL Query"."month" AS "month",
  SUM("Custom SQL Query"."people") AS "sum:people:ok"
FROM (
  SELECT extract(month FROM order_date) AS month, category, COUNT(DISTINCT customer_id) AS people
  FROM orders GROUP BY 1, 2
) "Custom SQL Query"
GROUP BY 1

-- price: free
SELECT *
FROM (
  SELECT category, COUNT(DISTINCT customer_id) AS people FROM orders GROUP BY category
) "Custom SQL Query"
LIMIT 0

-- price: free
SELECT * FROM (
  SELECT * FROM orders WHERE status = 'paid'
) "Custom SQL Query" LIMIT 0

-- refused: lists people
SELECT "orders".*
FROM "orders"
LIMIT 1000

-- core: SELECT category, channel, customers FROM orders WHERE category <> 'Office' AND channel IN ('phone', 'web') GROUP BY category, channel ORDER BY customers DESC
-- price: 10 units and 0 calls
SELECT "orders"."category" AS "category",
  "orders"."channel" AS "channel",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
WHERE (("orders"."channel" IN ('web', 'phone')) AND (NOT ("orders"."category" = 'Office')))
GROUP BY 1,
  2

-- core: SELECT channel, customers FROM orders WHERE status = 'refunded' GROUP BY channel ORDER BY customers DESC
-- price: 3 units and 0 calls
SELECT "orders"."channel" AS "channel",
  COUNT(DISTINCT (CASE WHEN "orders"."status" = 'refunded' THEN "orders"."customer_id" ELSE NULL END)) AS "usr:Refunders:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT "t0"."category" AS "category",
  "t0"."X_measure__1" AS "people"
FROM (
  SELECT "orders"."category" AS "category", COUNT(DISTINCT "orders"."customer_id") AS "X_measure__1"
  FROM "orders"
  GROUP BY 1
) "t0"
INNER JOIN (
  SELECT "orders"."category" AS "category", COUNT(DISTINCT "orders"."customer_id") AS "X__alias__0"
  FROM "orders"
  GROUP BY 1
  ORDER BY 2 DESC, 1 ASC
  LIMIT 3
) "t1" ON ("t0"."category" = "t1"."category")

-- refused: no private form
SELECT "orders"."product" AS "product",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
INNER JOIN (
  SELECT "orders"."product" AS "product", COUNT(1) AS "$__alias__0"
  FROM "orders" GROUP BY 1 ORDER BY 2 DESC LIMIT 5
) "t0" ON ("orders"."product" = "t0"."product")
GROUP BY 1

-- core: SELECT extract(month FROM order_date) + (extract(year FROM order_date) * 100), customers FROM orders GROUP BY extract(month FROM order_date) + (extract(year FROM order_date) * 100) ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT (EXTRACT(YEAR FROM "orders"."order_date") * 100 + EXTRACT(MONTH FROM "orders"."order_date")) AS "my:order_date:ok",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT floor(amount / 10.0) * 10.0, customers FROM orders WHERE amount < 40 GROUP BY floor(amount / 10.0) * 10.0 ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT (FLOOR("orders"."amount" / 10) * 10) AS "amount (bin)",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
WHERE ("orders"."amount" < 40)
GROUP BY 1

-- core: SELECT rating, orders_count FROM orders WHERE (rating IS NULL) <> TRUE GROUP BY rating ORDER BY orders_count DESC
-- price: 5 units and 0 calls
SELECT "orders"."rating" AS "rating",
  COUNT(1) AS "cnt:rating:ok"
FROM "orders"
WHERE (NOT ("orders"."rating" IS NULL))
GROUP BY 1

-- core: SELECT segment, QUANTILE_CONT(amount, 0.5) FROM orders GROUP BY segment
-- price: 1 unit and 0 calls
SELECT "orders"."segment" AS "segment",
  MEDIAN("orders"."amount") AS "med:amount:ok"
FROM "orders"
GROUP BY 1

-- duckdb: SELECT segment, stddev_pop(amount) FROM orders GROUP BY segment
-- core: SELECT segment, STDDEV_POP(amount) FROM orders GROUP BY segment
-- price: 1 unit and 0 calls
SELECT "orders"."segment" AS "segment",
  STDDEV_SAMP("orders"."amount") AS "std:amount:ok"
FROM "orders"
GROUP BY 1

-- core: SELECT upper(city), customers FROM orders WHERE city IN ('Lyon', 'München', 'Porto') GROUP BY upper(city) ORDER BY customers DESC
-- price: 1 unit and 0 calls
SELECT UPPER("orders"."city") AS "City (upper)",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
WHERE ("orders"."city" IN ('Lyon', 'Porto', 'München'))
GROUP BY 1

-- core: SELECT substr(product, 1, 1), customers FROM orders GROUP BY substr(product, 1, 1) ORDER BY customers DESC
-- price: 201 units and 1 call
SELECT LEFT("orders"."product", 1) AS "Initial",
  COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok"
FROM "orders"
GROUP BY 1
ORDER BY 1

-- core: SELECT is_gift, orders_count FROM orders GROUP BY is_gift ORDER BY orders_count DESC
-- price: 2 units and 0 calls
SELECT "orders"."is_gift" AS "is_gift",
  COUNT(1) AS "cnt"
FROM "orders"
GROUP BY 1

-- core: SELECT extract(dow FROM order_date) + 1, orders_count FROM orders GROUP BY extract(dow FROM order_date) + 1 ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT (DATE_PART('dow', "orders"."order_date") + 1) AS "wd:order_date:ok",
  COUNT(1) AS "cnt"
FROM "orders"
GROUP BY 1

-- core: SELECT category, items, customers FROM orders GROUP BY category ORDER BY items DESC
-- price: 12 units and 0 calls
SELECT "orders"."category" AS "category",
  (SUM("orders"."quantity") / COUNT(DISTINCT "orders"."customer_id")) AS "Items per customer"
FROM "orders"
GROUP BY 1

-- refused: lists people
SELECT 1 AS "one" FROM "orders" LIMIT 1
