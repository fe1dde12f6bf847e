-- pandas, notebooks and SQLAlchemy: read_sql of hand-written statements, and what the libraries ask beside them.

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
select category, count(distinct customer_id) as n from orders group by category

-- core: SELECT region, orders_count FROM orders GROUP BY region ORDER BY orders_count DESC
-- price: 1 unit and 0 calls
select region, count(*) as n from orders group by region order by n desc

-- core: SELECT orders_count FROM orders
-- price: 1 unit and 0 calls
select count(*) from orders

-- core: SELECT orders_count FROM orders WHERE amount > 20
-- price: 1 unit and 0 calls
select count(*) as n from orders where amount > 20

-- core: SELECT orders_count FROM orders WHERE (amount >= 5 AND amount <= 10.5)
-- price: 1 unit and 0 calls
select count(*) as n from orders where amount between 5 and 10.5

-- core: SELECT customers FROM orders WHERE product = 'Green Tea'
-- price: 1 unit and 0 calls
select count(distinct customer_id) from orders where product = 'Green Tea'

-- core: SELECT customers FROM orders WHERE product IN ('Black Tea', 'Green Tea')
-- price: 1 unit and 0 calls
select count(distinct customer_id) from orders where product in ('Green Tea', 'Black Tea')

-- core: SELECT product, customers FROM orders WHERE product IN ('Black Tea', 'Green Tea') GROUP BY product ORDER BY customers DESC
-- price: 2 units and 0 calls
select product, count(distinct customer_id) as n from orders where product in ('Green Tea', 'Black Tea') group by product

-- core: SELECT product, customers FROM orders GROUP BY product ORDER BY customers DESC LIMIT 3
-- price: 7 units and 1 call
select product, count(distinct customer_id) as n from orders group by product order by n desc limit 3

-- core: SELECT product, items FROM orders GROUP BY product ORDER BY items DESC
-- price: 201 units and 1 call
select product, sum(quantity) as items from orders group by product order by items desc

-- core: SELECT order_date, orders_count FROM orders WHERE (order_date >= '2026-06-01' AND order_date < '2026-06-15') GROUP BY order_date ORDER BY orders_count DESC
-- price: 14 units and 0 calls
select order_date, count(*) as n from orders where order_date between '2026-06-01' and '2026-06-14' group by order_date order by order_date

-- core: SELECT extract(year FROM order_date), extract(month FROM order_date), orders_count FROM orders GROUP BY extract(year FROM order_date), extract(month FROM order_date) ORDER BY orders_count DESC
-- price: 201 units and 1 call
select year(order_date) as y, month(order_date) as m, count(*) as n from orders group by y, m order by y, m

-- core: SELECT extract(dow FROM order_date), orders_count FROM orders GROUP BY extract(dow FROM order_date) ORDER BY orders_count DESC
-- price: 7 units and 0 calls
select dayofweek(order_date) as weekday, count(*) as n from orders group by weekday order by weekday

-- core: SELECT date_trunc('quarter', order_date), items FROM orders WHERE (order_date >= '2025-01-01' AND order_date < '2026-07-01') GROUP BY date_trunc('quarter', order_date) ORDER BY items DESC
-- price: 6 units and 0 calls
select date_trunc('quarter', order_date) as quarter, sum(quantity) as items from orders where order_date >= '2025-01-01' and order_date < '2026-07-01' group by quarter order by quarter

-- refused: lists people
select * from orders

-- refused: lists people
select * from orders limit 5

-- refused: lists people
select amount from orders

-- refused: lists people
select customer_id from orders where amount > 100

-- refused: lists people
select customer_id, sum(amount) as total from orders group by customer_id order by total desc limit 10

-- core: SELECT AVG(amount) FROM orders
-- price: 1 unit and 0 calls
select avg(amount) from orders

-- duckdb: select avg(amount), stddev_pop(amount), quantile_disc(amount, 0.01), quantile_disc(amount, 0.99) from orders
-- core: SELECT AVG(amount), QUANTILE_CONT(amount, 0.01), QUANTILE_CONT(amount, 0.99), STDDEV_POP(amount) FROM orders
-- price: 4 units and 0 calls
select avg(amount) as mean, stddev(amount) as sd, min(amount) as low, max(amount) as high from orders

-- core: SELECT QUANTILE_CONT(amount, 0.5) FROM orders
-- price: 1 unit and 0 calls
select median(amount) from orders

-- core: SELECT QUANTILE_CONT(amount, 0.5) FROM orders
-- price: 1 unit and 0 calls
select quantile_cont(amount, 0.5) from orders

-- core: SELECT SUM(amount) FROM orders
-- price: 1 unit and 0 calls
select sum(amount) from orders

-- core: SELECT SUM(amount), orders_count FROM orders
-- price: 2 units and 0 calls
select sum(amount) / count(*) from orders

-- core: SELECT category, orders_count, items FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 12 units and 0 calls
select category, count(*) n, sum(quantity) items from orders group by category

-- core: SELECT rating, orders_count FROM orders GROUP BY rating ORDER BY orders_count DESC
-- price: 5 units and 0 calls
select rating, count(*) as n from orders group by rating order by rating

-- core: SELECT rating, orders_count FROM orders WHERE (rating IS NULL) <> TRUE GROUP BY rating ORDER BY orders_count DESC
-- price: 5 units and 0 calls
select rating, count(*) as n from orders where rating is not null group by rating order by rating desc

-- core: SELECT is_gift, customers FROM orders GROUP BY is_gift ORDER BY customers DESC
-- price: 2 units and 0 calls
select is_gift, count(distinct customer_id) as n from orders group by is_gift

-- core: SELECT city, customers FROM orders GROUP BY city ORDER BY customers DESC
-- price: 1 unit and 1 call
select city, count(distinct customer_id) as n from orders group by city order by n desc

-- core: SELECT city, customers FROM orders WHERE city = 'Αθήνα' GROUP BY city ORDER BY customers DESC
-- price: 1 unit and 0 calls
select city, count(distinct customer_id) as n from orders where city = 'Αθήνα' group by city

-- core: SELECT city, orders_count FROM orders WHERE (city LIKE '%ł%') = TRUE OR (starts_with(city, 'K')) = TRUE GROUP BY city ORDER BY orders_count DESC
-- price: 1 unit and 1 call
select city, count(*) as n from orders where city like 'K%' or city like '%ł%' group by city order by city

-- core: SELECT upper(city), orders_count FROM orders GROUP BY upper(city) ORDER BY orders_count DESC
-- price: 1 unit and 1 call
select upper(city) as c, count(*) as n from orders group by c order by c

-- core: SELECT lower(product), orders_count FROM orders WHERE (lower(product) LIKE '%tea') = TRUE GROUP BY lower(product) ORDER BY orders_count DESC
-- price: 201 units and 1 call
select lower(product) as p, count(*) as n from orders where product ilike '%TEA' group by p order by p

-- core: SELECT length(product), orders_count FROM orders GROUP BY length(product) ORDER BY orders_count DESC
-- price: 201 units and 1 call
select length(product) as letters, count(*) as n from orders group by letters order by letters

-- core: SELECT product || ' / ' || category, orders_count FROM orders GROUP BY product || ' / ' || category ORDER BY orders_count DESC LIMIT 4
-- price: 9 units and 1 call
select product || ' / ' || category as name, count(*) as n from orders group by name order by n desc limit 4

-- core: SELECT coupon, orders_count FROM orders WHERE (coupon IS NULL) <> TRUE GROUP BY coupon ORDER BY orders_count DESC
-- price: 201 units and 1 call
select coupon, count(*) as n from orders where coupon is not null group by coupon order by n desc, coupon

-- core: SELECT coalesce(coupon, 'none'), orders_count FROM orders GROUP BY coalesce(coupon, 'none') ORDER BY orders_count DESC
-- price: 201 units and 1 call
select coalesce(coupon, 'none') as coupon_used, count(*) as n from orders group by coupon_used order by n desc, coupon_used

-- core: SELECT nullif(coupon, 'VIP'), orders_count FROM orders GROUP BY nullif(coupon, 'VIP') ORDER BY orders_count DESC
-- price: 201 units and 1 call
select nullif(coupon, 'VIP') as c, count(*) as n from orders group by c order by c

-- core: SELECT CASE WHEN 4 <= rating THEN 'good' WHEN rating IS NULL THEN 'none' ELSE 'poor' END, customers FROM orders GROUP BY CASE WHEN 4 <= rating THEN 'good' WHEN rating IS NULL THEN 'none' ELSE 'poor' END ORDER BY customers DESC
-- price: 3 units and 0 calls
select case when rating >= 4 then 'good' when rating is null then 'none' else 'poor' end as opinion, count(distinct customer_id) as n from orders group by opinion order by opinion

-- core: SELECT round(amount, 0), orders_count FROM orders WHERE amount < 6 GROUP BY round(amount, 0) ORDER BY orders_count DESC
-- price: 201 units and 1 call
select round(amount) as euros, count(*) as n from orders where amount < 6 group by euros order by euros

-- core: SELECT floor(amount / 10.0), orders_count FROM orders WHERE amount < 50 GROUP BY floor(amount / 10.0) ORDER BY orders_count DESC
-- price: 201 units and 1 call
select floor(amount / 10) as tens, count(*) as n from orders where amount < 50 group by tens order by tens

-- duckdb: select case when amount >= 50 then 6 else floor(amount / 10) + 1 end as bucket, count(*) from orders group by bucket order by bucket
-- core: SELECT width_bucket(amount, 0.0, 50.0, 5), orders_count FROM orders GROUP BY width_bucket(amount, 0.0, 50.0, 5) ORDER BY orders_count DESC
-- price: 7 units and 0 calls
select width_bucket(amount, 0, 50, 5) as bucket, count(*) as n from orders group by bucket order by bucket

-- core: SELECT quantity % 2, orders_count FROM orders GROUP BY quantity % 2 ORDER BY orders_count DESC
-- price: 2 units and 0 calls
select quantity % 2 as odd, count(*) as n from orders group by odd order by odd

-- core: SELECT abs(quantity + -3), orders_count FROM orders GROUP BY abs(quantity + -3) ORDER BY orders_count DESC
-- price: 3 units and 0 calls
select abs(quantity - 3) as distance, count(*) as n from orders group by distance order by distance

-- core: SELECT orders_count FROM orders WHERE (quantity * 2) >= 7
-- price: 1 unit and 0 calls
select count(*) from orders where quantity * 2 > 6

-- core: SELECT orders_count FROM orders WHERE (amount / CAST(quantity AS DOUBLE)) > 8
-- price: 1 unit and 0 calls
select count(*) from orders where amount / quantity > 8

-- core: SELECT orders_count FROM orders WHERE (order_date < shipped_on) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where shipped_on > order_date

-- core: SELECT orders_count FROM orders WHERE (shipped_on - order_date) >= 6
-- price: 1 unit and 0 calls
select count(*) from orders where shipped_on - order_date > 5

-- core: SELECT orders_count FROM orders WHERE (shipped_on IS NULL) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where shipped_on is null

-- core: SELECT orders_count FROM orders WHERE ((order_date + INTERVAL '1' DAY) = shipped_on) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where shipped_on = order_date + interval '1 day'

-- core: SELECT orders_count FROM orders WHERE order_date >= '2026-05-31'
-- price: 1 unit and 0 calls
select count(*) from orders where order_date >= current_date - interval '30' day

-- core: SELECT orders_count FROM orders WHERE order_date >= '2026-06-01'
-- price: 1 unit and 0 calls
select count(*) from orders where order_date >= date_trunc('month', current_date)

-- refused: changes every time
select count(*) from orders where ordered_at >= now() - interval '30 days'

-- refused: wrong types
select count(*) from orders where order_date >= '01/01/2026'

-- refused: text is no date
select count(*) from orders where due >= '01/01/2026'

-- core: SELECT orders_count FROM orders WHERE (due LIKE '%/2026') = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where due like '%/2026'

-- core: SELECT orders_count FROM orders WHERE (CAST(due AS DATE) IS NULL) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where try_cast(due as date) is null

-- core: SELECT orders_count FROM orders WHERE (extract(year FROM order_date)) = 2026
-- price: 1 unit and 0 calls
select count(*) from orders where extract(year from order_date) = 2026

-- core: SELECT orders_count FROM orders WHERE NOT region IN ('North', 'South')
-- price: 1 unit and 0 calls
select count(*) from orders where not (region = 'North' or region = 'South')

-- refused: not supported yet
select count(*) from orders where (region, segment) in (('North', 'Consumer'))

-- core: SELECT orders_count FROM orders WHERE (coupon IS NULL) <> TRUE AND NOT product IN ('Pen', 'Soap')
-- price: 1 unit and 0 calls
select count(*) from orders where product not in ('Pen', 'Soap') and coupon is not null

-- core: SELECT orders_count FROM orders WHERE product = 'Baker''s Flour'
-- price: 1 unit and 0 calls
select count(*) from orders where product = 'Baker''s Flour'

-- core: SELECT orders_count FROM orders WHERE (starts_with(product, 'Rice 5%')) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where product like 'Rice 5\%%' escape '\'

-- core: SELECT orders_count FROM orders WHERE (starts_with(product, 'B')) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where starts_with(product, 'B')

-- core: SELECT orders_count FROM orders WHERE (substr(product, 1, 3)) = 'Des'
-- price: 1 unit and 0 calls
select count(*) from orders where substr(product, 1, 3) = 'Des'

-- core: SELECT orders_count FROM orders WHERE (product = trim(product)) <> TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where trim(product) <> product

-- core: SELECT orders_count FROM orders WHERE (discount IS NULL) = TRUE
-- price: 1 unit and 0 calls
select count(*) from orders where discount is not distinct from null

-- core: SELECT orders_count FROM orders WHERE discount > 0.05
-- price: 1 unit and 0 calls
select count(*) from orders where discount > 0.05

-- core: SELECT orders_count FROM orders WHERE discount = 0.1 OR rating = 5
-- price: 1 unit and 0 calls
select count(*) from orders where discount = 0.1 or rating = 5

-- core: SELECT orders_count FROM orders WHERE (CAST(ordered_at AS DATE)) = '2026-03-14'
-- price: 1 unit and 0 calls
select count(*) from orders where ordered_at::date = date '2026-03-14'

-- core: SELECT orders_count FROM orders WHERE (CAST(quantity AS VARCHAR)) = '3'
-- price: 1 unit and 0 calls
select count(*) from orders where cast(quantity as varchar) = '3'

-- refused: no such function
select count(*) from orders where regexp_matches(product, '^B')

-- refused: not supported yet
select count(*) from orders where product similar to 'B%'

-- core: SELECT orders_count FROM orders WHERE category = 'drinks'
-- price: 1 unit and 0 calls
select count(*) from orders where category = 'drinks'

-- core: SELECT orders_count FROM orders WHERE is_gift = TRUE
-- price: 1 unit and 0 calls
select count_if(is_gift) from orders

-- refused: wrong types
select count(*) from orders where region = 5

-- refused: wrong types
select count(*) from orders where quantity = 'x'

-- refused: lists people
select count(*) from orders where customer_id = 7

-- refused: no such name
select catgory, count(*) from orders group by catgory

-- refused: no such name
select count(*) from order_lines

-- refused: syntax
select count(*) form orders

-- refused: lists people
select category, count(*) from orders

-- refused: syntax
select category count(*) from orders group by category

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, count(*) from orders group by category having count(*) > 250 order by count(*) desc

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, count(*) * 2 as twice, round(count(*) / 7.0, 2) as sevenths from orders group by category order by 1

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, count(*) as n, rank() over (order by count(*) desc) as place from orders group by category order by place

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, 100.0 * count(*) / sum(count(*)) over () as percent from orders group by category order by percent desc

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, cume_dist() over (order by count(*)) as c from orders group by category order by c

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select t.n, count(*) as categories from (select category, count(*) as n from orders group by category) t group by t.n order by t.n

-- core: SELECT region, customers FROM orders GROUP BY region ORDER BY customers DESC
-- price: 1 unit and 0 calls
select avg(n) from (select region, count(distinct customer_id) as n from orders group by region) t

-- core: SELECT segment, customers FROM orders GROUP BY segment ORDER BY customers DESC
-- price: 1 unit and 0 calls
select max(n) - min(n) as spread from (select segment, count(distinct customer_id) as n from orders group by segment) t

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, n from (select category, count(*) as n from orders group by category) t where n = (select max(n) from (select category, count(*) as n from orders group by category) u)

-- core: SELECT category, orders_count FROM orders GROUP BY category ORDER BY orders_count DESC LIMIT 2
-- price: 4 units and 0 calls
select category from (select category, count(*) as n from orders group by category order by n desc limit 2) t order by category

-- refused: not supported yet
select n_orders, count(*) as customers from (select customer_id, count(*) as n_orders from orders group by customer_id) t group by n_orders

-- refused: not supported yet
select count(*) from (select distinct customer_id from orders where status = 'refunded') t

-- refused: not supported yet
select avg(n) from (select customer_id, count(*) as n from orders group by customer_id) t

-- core: SELECT category, orders_count FROM orders WHERE order_date >= '2026-01-01' GROUP BY category ORDER BY orders_count DESC
-- core: SELECT category, orders_count FROM orders WHERE order_date < '2026-01-01' GROUP BY category ORDER BY orders_count DESC
-- price: 12 units and 0 calls
select a.category, a.n, b.n as before from (select category, count(*) as n from orders where order_date >= '2026-01-01' group by category) a join (select category, count(*) as n from orders where order_date < '2026-01-01' group by category) b on a.category = b.category

-- core: SELECT orders_count FROM orders WHERE channel = 'web'
-- core: SELECT orders_count FROM orders WHERE channel = 'store'
-- price: 2 units and 0 calls
select 'web' as channel, count(*) as n from orders where channel = 'web' union all select 'store', count(*) from orders where channel = 'store'

-- core: SELECT region, orders_count FROM orders GROUP BY region ORDER BY orders_count DESC
-- core: SELECT orders_count FROM orders
-- price: 2 units and 0 calls
select region, count(*) as n from orders group by region union all select 'all', count(*) from orders

-- refused: not supported yet
select region, count(*) as n from orders group by rollup (region)

-- refused: not supported yet
select region, segment, count(*) as n from orders group by cube (region, segment)

-- refused: not supported yet
select region, segment, count(*) as n from orders group by grouping sets ((region), (segment))

-- price: free
select distinct region from orders order by region desc

-- refused: not supported yet
select distinct region, segment from orders

-- refused: values are private
select distinct city from orders

-- refused: no private form
select category, array_agg(product) from orders group by category

-- refused: no private form
select string_agg(distinct product, ', ') from orders

-- refused: not supported yet
select mode(product) from orders

-- refused: no private form
select first(product) from orders

-- refused: lists people
select product, row_number() over (partition by category order by amount desc) as place from orders

-- refused: not supported yet
select corr(amount, quantity) from orders

-- refused: lists people
select count(*) over (partition by region) from orders

-- core: SELECT category, orders_count FROM orders WHERE status = 'refunded' GROUP BY category ORDER BY orders_count DESC
-- price: 6 units and 0 calls
select category, count(*) filter (where status = 'refunded') as refunds from orders group by category order by refunds desc

-- refused: not supported yet
select category, count(*) filter (where status = 'refunded') as refunds, count(*) as n from orders group by category

-- refused: not supported yet
select count(*) from orders where exists (select 1 from visits where visits.visitor_id = orders.customer_id)

-- refused: not supported yet
select count(*) from orders where product in (select product from orders group by product order by count(*) desc limit 3)

-- refused: no private form
select count(*) from orders o join visits v on o.customer_id = v.visitor_id

-- refused: no private form
select count(*) from orders, visits

-- refused: no private form
select region, count(distinct customer_id) as n from orders tablesample 10% group by region

-- refused: no question
insert into orders values (1)

-- refused: no question
delete from orders where customer_id = 7

-- refused: no question
update orders set amount = 0

-- refused: no question
create table copy as select * from orders

-- refused: no question
drop table orders

-- refused: no question
pivot orders on region using count(*)

-- duckdb: none
-- price: free
select version()

-- price: free
select current_schema()

-- price: free
select 1 as one, 'x' as letter

-- duckdb: select unnest(['orders', 'visits', 'products']) as name
-- price: free
show tables

-- duckdb: none
-- price: free
describe orders

-- duckdb: select table_name from (values ('orders'), ('products'), ('visits')) t (table_name)
-- price: free
select table_name from information_schema.tables where table_type = 'BASE TABLE' order by table_name

-- duckdb: select 10 as n
-- price: free
select count(*) as n from information_schema.columns where table_name = 'visits'

-- price: free
select region, count(*) as n from orders group by region limit 0
