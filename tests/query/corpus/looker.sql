-- Looker: aliases like "orders.category", formatted dates, LIMIT 500, FETCH NEXT, and derived tables in WITH.

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT
    orders.category AS "orders.category",
    COUNT(DISTINCT orders.customer_id) AS "orders.customers"
FROM orders AS orders
GROUP BY
    1
ORDER BY
    2 DESC
LIMIT 500

-- core: SELECT category, region, orders_count FROM orders WHERE region IN ('North', 'South') AND status = 'paid' GROUP BY category, region ORDER BY orders_count DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT
    orders.category AS "orders.category",
    orders.region AS "orders.region",
    COUNT(*) AS "orders.count"
FROM main.orders AS orders
WHERE orders.status = 'paid' AND (orders.region) IN ('North', 'South')
GROUP BY
    1,
    2
ORDER BY
    3 DESC
FETCH NEXT 500 ROWS ONLY

-- core: SELECT CAST(ordered_at AS DATE), orders_count FROM orders WHERE (ordered_at >= '2026-06-01 00:00:00' AND ordered_at < '2026-06-15 00:00:00') GROUP BY CAST(ordered_at AS DATE) ORDER BY orders_count DESC
-- price: 14 units and 0 calls
SELECT
    CAST(orders.ordered_at AS DATE) AS "orders.ordered_date",
    COUNT(*) AS "orders.count"
FROM orders AS orders
WHERE ((( orders.ordered_at ) >= ((TIMESTAMP '2026-06-01')) AND ( orders.ordered_at ) < ((TIMESTAMP '2026-06-15'))))
GROUP BY
    1
ORDER BY
    1 DESC
LIMIT 500

-- core: SELECT date_trunc('month', order_date), items FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01') GROUP BY date_trunc('month', order_date) ORDER BY items DESC
-- price: 6 units and 0 calls
SELECT
    DATE_TRUNC('month', orders.order_date) AS "orders.order_month",
    SUM(orders.quantity) AS "orders.total_quantity"
FROM orders AS orders
WHERE orders.order_date >= DATE '2026-01-01' AND orders.order_date < DATE '2026-07-01'
GROUP BY
    1
HAVING SUM(orders.quantity) > 10
ORDER BY
    1 DESC
LIMIT 500

-- core: SELECT date_trunc('week', ordered_at), customers FROM orders WHERE (ordered_at >= '2026-04-06 00:00:00' AND ordered_at < '2026-06-29 00:00:00') GROUP BY date_trunc('week', ordered_at) ORDER BY customers DESC
-- price: 12 units and 0 calls
SELECT
    DATE_TRUNC('week', orders.ordered_at) AS "orders.ordered_week",
    COUNT(DISTINCT orders.customer_id) AS "orders.customers"
FROM orders AS orders
WHERE orders.ordered_at >= TIMESTAMP '2026-04-06' AND orders.ordered_at < TIMESTAMP '2026-06-29'
GROUP BY 1
ORDER BY 1 DESC
LIMIT 500

-- core: SELECT CASE WHEN quantity = 1 THEN '1' WHEN (2 <= quantity) AND (quantity <= 3) THEN '2 to 3' ELSE '4 or above' END, customers FROM orders GROUP BY CASE WHEN quantity = 1 THEN '1' WHEN (2 <= quantity) AND (quantity <= 3) THEN '2 to 3' ELSE '4 or above' END ORDER BY customers DESC
-- price: 3 units and 0 calls
SELECT
    CASE
        WHEN orders.quantity = 1 THEN '1'
        WHEN orders.quantity BETWEEN 2 AND 3 THEN '2 to 3'
        ELSE '4 or above'
    END AS "orders.quantity_tier",
    COUNT(DISTINCT orders.customer_id) AS "orders.customers"
FROM orders AS orders
GROUP BY
    1
ORDER BY
    1
LIMIT 500

-- core: SELECT CASE WHEN is_gift THEN 'Yes' ELSE 'No' END, orders_count FROM orders GROUP BY CASE WHEN is_gift THEN 'Yes' ELSE 'No' END ORDER BY orders_count DESC LIMIT 100
-- price: 2 units and 0 calls
SELECT
    (CASE WHEN orders.is_gift THEN 'Yes' ELSE 'No' END) AS "orders.is_gift",
    COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT items FROM orders WHERE (lower(category) LIKE '%drink%') = TRUE
-- price: 1 unit and 0 calls
SELECT
    COALESCE(SUM(orders.quantity), 0) AS "orders.total_quantity"
FROM orders AS orders
WHERE (orders.category ILIKE '%drink%')
LIMIT 500

-- core: SELECT customers FROM orders WHERE channel = 'web'
-- price: 1 unit and 0 calls
SELECT
    COUNT(DISTINCT CASE WHEN orders.channel = 'web' THEN orders.customer_id ELSE NULL END) AS "orders.web_customers"
FROM orders AS orders
LIMIT 500

-- core: SELECT segment, customers FROM orders WHERE channel = 'web' GROUP BY segment ORDER BY customers DESC LIMIT 100
-- price: 1 unit and 0 calls
WITH web_orders AS (
    SELECT * FROM orders WHERE channel = 'web'
)
SELECT
    web_orders.segment AS "web_orders.segment",
    COUNT(DISTINCT web_orders.customer_id) AS "web_orders.customers"
FROM web_orders
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
WITH by_category AS (
    SELECT category, COUNT(DISTINCT customer_id) AS customers
    FROM orders
    GROUP BY 1
)
SELECT
    by_category.category AS "by_category.category",
    AVG(by_category.customers) AS "by_category.average"
FROM by_category
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT lookup(product_id, products.department), customers FROM orders GROUP BY lookup(product_id, products.department) ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
SELECT
    products.department AS "products.department",
    COUNT(DISTINCT orders.customer_id) AS "orders.customers"
FROM orders AS orders
LEFT JOIN products AS products ON orders.product_id = products.product_id
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT lookup(product_id, products.department), orders_count FROM orders WHERE (lookup(product_id, products.department)) <> 'Office' GROUP BY lookup(product_id, products.department) ORDER BY orders_count DESC LIMIT 100
-- price: 5 units and 0 calls
SELECT
    products.department AS "products.department",
    COUNT(*) AS "orders.count"
FROM orders AS orders
INNER JOIN products AS products ON products.product_id = orders.product_id
WHERE products.department <> 'Office'
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT channel, AVG(amount), orders_count FROM orders GROUP BY channel
-- price: 6 units and 0 calls
SELECT
    orders.channel AS "orders.channel",
    AVG(orders.amount) AS "orders.average_amount",
    COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- refused: lists people
SELECT
    orders.customer_id AS "orders.customer_id",
    COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1
ORDER BY 2 DESC
LIMIT 500

-- core: SELECT category, channel, orders_count FROM orders GROUP BY category, channel ORDER BY orders_count DESC
-- price: 18 units and 0 calls
SELECT * FROM (
SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) as z___pivot_row_rank FROM (
SELECT "orders.category", "orders.channel", "orders.count", MIN("orders.count") OVER (PARTITION BY "orders.category") AS z___min_rank FROM (
SELECT orders.category AS "orders.category", orders.channel AS "orders.channel", COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1, 2) ww
) aa
) xx
WHERE z___pivot_row_rank <= 500
ORDER BY z___pivot_row_rank, "orders.category", "orders.channel"

-- core: SELECT page, visitors FROM visits WHERE converted = TRUE AND (length(page)) >= 2 GROUP BY page ORDER BY visitors DESC LIMIT 10
-- price: 1 unit and 1 call
SELECT
    visits.page AS "visits.page",
    COUNT(DISTINCT visits.visitor_id) AS "visits.visitors"
FROM visits AS visits
WHERE LENGTH(visits.page) > 1 AND visits.converted
GROUP BY 1
ORDER BY 2 DESC
LIMIT 10

-- core: SELECT extract(hour FROM started), views FROM visits GROUP BY extract(hour FROM started) ORDER BY views DESC
-- price: 24 units and 0 calls
SELECT
    EXTRACT(HOUR FROM visits.started) AS "visits.started_hour_of_day",
    COUNT(*) AS "visits.count"
FROM visits AS visits
GROUP BY 1
ORDER BY 1
LIMIT 500

-- core: SELECT referrer, views FROM visits WHERE (referrer IS NULL) <> TRUE GROUP BY referrer ORDER BY views DESC LIMIT 50
-- price: 101 units and 1 call
SELECT
    visits.referrer AS "visits.referrer",
    COUNT(*) AS "visits.count"
FROM visits AS visits
WHERE visits.referrer IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 500

-- core: SELECT visitors FROM visits WHERE (coalesce(converted, FALSE)) <> TRUE AND (seconds IS NULL) <> TRUE
-- price: 1 unit and 0 calls
SELECT
    COUNT(DISTINCT visits.visitor_id) AS "visits.visitors"
FROM visits AS visits
WHERE visits.seconds IS NOT NULL AND NOT COALESCE(visits.converted, FALSE)

-- core: SELECT orders_count FROM orders WHERE status = 'open'
-- price: 1 unit and 0 calls
SELECT COUNT(*) AS count FROM (SELECT 1 FROM orders WHERE status = 'open') t

-- refused: no such function
SELECT
    DATE_DIFF('day', orders.order_date, orders.shipped_on) AS "orders.days_to_ship",
    COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1
LIMIT 500

-- core: SELECT shipped_on - order_date, orders_count FROM orders WHERE (shipped_on IS NULL) <> TRUE GROUP BY shipped_on - order_date ORDER BY orders_count DESC
-- price: 201 units and 1 call
SELECT
    (orders.shipped_on - orders.order_date) AS "orders.days_to_ship",
    COUNT(*) AS "orders.count"
FROM orders AS orders
WHERE orders.shipped_on IS NOT NULL
GROUP BY 1
ORDER BY 1
LIMIT 500

-- refused: no such function
SELECT TO_CHAR(orders.order_date, 'YYYY-MM') AS "orders.order_month", COUNT(*) AS "orders.count"
FROM orders AS orders
GROUP BY 1
LIMIT 500

-- duckdb: none
-- price: free
EXPLAIN SELECT category, COUNT(*) FROM orders GROUP BY category
