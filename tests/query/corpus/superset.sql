-- Superset: lower-case functions, aliases like "count", time grains, LIMIT on everything, datasets that are subqueries.

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT category AS category,
       count(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)"
FROM main.orders
GROUP BY category
ORDER BY "COUNT_DISTINCT(customer_id)" DESC
LIMIT 10000

-- core: SELECT order_date, orders_count FROM orders WHERE (order_date >= '2026-06-01' AND order_date < '2026-07-01') GROUP BY order_date ORDER BY orders_count DESC LIMIT 100
-- price: 30 units and 0 calls
SELECT DATE_TRUNC('day', order_date) AS order_date,
       count(*) AS count
FROM main.orders
WHERE order_date >= '2026-06-01'
  AND order_date < '2026-07-01'
GROUP BY DATE_TRUNC('day', order_date)
ORDER BY count DESC
LIMIT 10000

-- core: SELECT date_trunc('week', ordered_at), orders_count FROM orders WHERE (ordered_at >= '2026-04-06 00:00:00' AND ordered_at < '2026-06-01 00:00:00') GROUP BY date_trunc('week', ordered_at) ORDER BY orders_count DESC
-- price: 8 units and 0 calls
SELECT DATE_TRUNC('week', ordered_at) AS __timestamp,
       COUNT(*) AS count
FROM orders
WHERE ordered_at >= TIMESTAMP '2026-04-06 00:00:00.000000'
  AND ordered_at < TIMESTAMP '2026-06-01 00:00:00.000000'
GROUP BY DATE_TRUNC('week', ordered_at)
ORDER BY DATE_TRUNC('week', ordered_at)
LIMIT 50000

-- core: SELECT date_trunc('month', ordered_at), region, customers FROM orders WHERE (ordered_at >= '2026-01-01 00:00:00' AND ordered_at < '2026-07-01 00:00:00') GROUP BY date_trunc('month', ordered_at), region ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT DATE_TRUNC('month', ordered_at) AS __timestamp, region AS region, COUNT(DISTINCT customer_id) AS people
FROM orders
WHERE ordered_at >= '2026-01-01 00:00:00.000000' AND ordered_at < '2026-07-01 00:00:00.000000'
GROUP BY DATE_TRUNC('month', ordered_at), region
ORDER BY people DESC
LIMIT 10000

-- core: SELECT category, orders_count FROM orders WHERE status = 'paid' GROUP BY category ORDER BY orders_count DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT category AS category, count(*) AS count
FROM (SELECT * FROM orders WHERE status = 'paid') AS virtual_table
GROUP BY category
ORDER BY count DESC
LIMIT 1000

-- core: SELECT extract(month FROM order_date), customers FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01') AND quantity >= 2 GROUP BY extract(month FROM order_date) ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT month AS month, count(DISTINCT customer_id) AS people
FROM (
  SELECT customer_id, extract(month from order_date) AS month, quantity
  FROM orders
  WHERE order_date BETWEEN '2026-01-01' AND '2026-06-30'
) AS virtual_table
WHERE quantity > 1
GROUP BY month
ORDER BY people DESC
LIMIT 1000

-- core: SELECT region, customers FROM orders GROUP BY region ORDER BY customers DESC
-- price: 1 unit and 0 calls
SELECT region AS region, people AS people
FROM (
  SELECT region, count(DISTINCT customer_id) AS people FROM orders GROUP BY region
) AS virtual_table
LIMIT 1000

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT sum(people) AS "SUM(people)"
FROM (SELECT category, count(DISTINCT customer_id) AS people FROM orders GROUP BY category) AS virtual_table
LIMIT 50000

-- core: SELECT customers FROM orders WHERE region = 'North'
-- price: 1 unit and 0 calls
SELECT count(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)"
FROM orders
WHERE region IN ('North')
LIMIT 50000

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
SELECT count(*) AS count FROM orders LIMIT 50000

-- core: SELECT city, orders_count FROM orders WHERE (city IS NULL) <> TRUE AND city <> '' GROUP BY city ORDER BY orders_count DESC LIMIT 100
-- price: 1 unit and 1 call
SELECT city AS city, count(*) AS count
FROM orders
WHERE city IS NOT NULL AND city != ''
GROUP BY city
ORDER BY count DESC
LIMIT 100

-- refused: no private form
SELECT product AS product, sum(quantity) AS "SUM(quantity)"
FROM orders
JOIN (
  SELECT product AS product__, sum(quantity) AS mme_inner__
  FROM orders
  GROUP BY product
  ORDER BY mme_inner__ DESC
  LIMIT 5
) AS anon_1 ON product = product__
GROUP BY product
LIMIT 10000

-- core: SELECT category, SUM(amount) FROM orders GROUP BY category ORDER BY SUM(amount) DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT category AS category, sum(amount) AS "SUM(amount)"
FROM orders
GROUP BY category
ORDER BY "SUM(amount)" DESC
LIMIT 100

-- core: SELECT category, AVG(amount) FROM orders GROUP BY category
-- price: 6 units and 0 calls
SELECT category AS category, AVG(amount) AS "AVG(amount)"
FROM orders
GROUP BY category
ORDER BY "AVG(amount)" DESC
LIMIT 100

-- core: SELECT category, orders_count, items FROM orders GROUP BY category ORDER BY orders_count DESC LIMIT 100
-- price: 12 units and 0 calls
SELECT category AS category, count(*) AS count, sum(quantity) AS items
FROM orders
GROUP BY category
ORDER BY count DESC
LIMIT 100

-- price: free
SELECT DISTINCT region AS region FROM orders ORDER BY region ASC LIMIT 1000

-- refused: values are private
SELECT DISTINCT product AS product FROM orders LIMIT 1000

-- price: free
SELECT region AS region FROM orders GROUP BY region ORDER BY region ASC LIMIT 1000

-- core: SELECT page, visitors FROM visits WHERE (starts_with(page, '/docs/')) = TRUE GROUP BY page ORDER BY visitors DESC LIMIT 20
-- price: 1 unit and 1 call
SELECT page AS page, count(DISTINCT visitor_id) AS visitors
FROM visits
WHERE page LIKE '/docs/%'
GROUP BY page
ORDER BY visitors DESC
LIMIT 20

-- core: SELECT country, device, visitors FROM visits WHERE (started >= '2026-05-01 00:00:00' AND started < '2026-06-01 00:00:00') GROUP BY country, device ORDER BY visitors DESC LIMIT 50
-- price: 3 units and 0 calls
SELECT country AS country, device AS device, count(DISTINCT visitor_id) AS people
FROM visits
WHERE started >= TIMESTAMP '2026-05-01' AND started < TIMESTAMP '2026-06-01'
GROUP BY country, device
ORDER BY people DESC
LIMIT 1000

-- core: SELECT date_trunc('hour', started), visitors FROM visits WHERE (started >= '2026-06-10 00:00:00' AND started < '2026-06-11 00:00:00') GROUP BY date_trunc('hour', started) ORDER BY visitors DESC LIMIT 50
-- price: 24 units and 0 calls
SELECT DATE_TRUNC('hour', started) AS started, count(DISTINCT visitor_id) AS visitors
FROM visits
WHERE started >= '2026-06-10 00:00:00' AND started < '2026-06-11 00:00:00'
GROUP BY DATE_TRUNC('hour', started)
LIMIT 10000

-- core: SELECT country, views FROM visits WHERE (page LIKE '%login%') <> TRUE AND country IN ('CH', 'DE') AND seconds >= 11 GROUP BY country ORDER BY views DESC LIMIT 50
-- price: 1 unit and 0 calls
SELECT country, count(*) AS count
FROM visits
WHERE (seconds > 10) AND (country IN ('CH', 'DE')) AND ((page NOT LIKE '%login%'))
GROUP BY country
LIMIT 1000

-- core: SELECT CASE WHEN seconds < 10 THEN 'bounce' WHEN seconds < 60 THEN 'short' ELSE 'long' END, visitors FROM visits GROUP BY CASE WHEN seconds < 10 THEN 'bounce' WHEN seconds < 60 THEN 'short' ELSE 'long' END ORDER BY visitors DESC LIMIT 50
-- price: 3 units and 0 calls
SELECT CASE WHEN seconds < 10 THEN 'bounce' WHEN seconds < 60 THEN 'short' ELSE 'long' END AS length,
       count(DISTINCT visitor_id) AS people
FROM visits
GROUP BY CASE WHEN seconds < 10 THEN 'bounce' WHEN seconds < 60 THEN 'short' ELSE 'long' END
ORDER BY people DESC
LIMIT 1000

-- refused: lists people
SELECT * FROM orders LIMIT 100

-- refused: lists people
SELECT category, product, quantity FROM orders ORDER BY ordered_at DESC LIMIT 1000

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
SELECT category AS category, count(*) * 100.0 / sum(count(*)) OVER () AS pct
FROM orders
GROUP BY category
LIMIT 1000

-- refused: not supported yet
SELECT max(ordered_at) AS last FROM orders

-- duckdb: SELECT count(DISTINCT customer_id) FROM orders
-- core: SELECT customers FROM orders
-- price: 1 unit and 0 calls
SELECT approx_count_distinct(customer_id) AS people FROM orders

-- core: SELECT quantity, orders_count FROM orders GROUP BY quantity ORDER BY orders_count DESC
-- price: 5 units and 0 calls
SELECT quantity AS quantity, count(*) AS count FROM orders GROUP BY quantity ORDER BY quantity LIMIT 1000

-- core: SELECT coalesce(region, '') || ' / ' || coalesce(segment, ''), customers FROM orders GROUP BY coalesce(region, '') || ' / ' || coalesce(segment, '') ORDER BY customers DESC LIMIT 100
-- price: 4 units and 0 calls
SELECT concat(region, ' / ', segment) AS place, count(DISTINCT customer_id) AS people
FROM orders
GROUP BY concat(region, ' / ', segment)
LIMIT 1000

-- core: SELECT lower(trim(coupon)), orders_count FROM orders WHERE (coupon IS NULL) <> TRUE GROUP BY lower(trim(coupon)) ORDER BY orders_count DESC LIMIT 50
-- price: 101 units and 1 call
SELECT lower(trim(coupon)) AS coupon, count(*) AS count
FROM orders
WHERE coupon IS NOT NULL
GROUP BY lower(trim(coupon))
LIMIT 50

-- core: SELECT category, orders_count FROM orders WHERE is_gift = TRUE GROUP BY category ORDER BY orders_count DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT category AS category, count(*) FILTER (WHERE is_gift) AS gifts
FROM orders
GROUP BY category
LIMIT 100

-- core: SELECT category, region, customers FROM orders GROUP BY category, region ORDER BY customers DESC
-- price: 6 units and 0 calls
SELECT COUNT(*) AS rowcount FROM (SELECT category, region, COUNT(DISTINCT customer_id) AS n FROM orders GROUP BY category, region) AS rowcount_qry

-- core: SELECT channel, customers FROM orders WHERE status = 'paid' GROUP BY channel ORDER BY customers DESC LIMIT 100
-- price: 3 units and 0 calls
WITH paid AS (SELECT * FROM orders WHERE status = 'paid')
SELECT channel, count(DISTINCT customer_id) AS people FROM paid GROUP BY channel ORDER BY people DESC LIMIT 1001

-- price: free
SHOW TABLES

-- price: free
SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'
