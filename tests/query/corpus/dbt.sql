-- dbt models and metrics: chains of WITH that rename and filter before they count, and tests of the data.

-- core: SELECT category, customers FROM orders WHERE status <> 'refunded' GROUP BY category ORDER BY customers DESC
-- price: 6 units and 0 calls
with source as (
    select * from orders
),
renamed as (
    select customer_id as buyer_id, category as product_category, order_date as ordered_on, status
    from source
),
final as (
    select product_category, count(distinct buyer_id) as buyers
    from renamed
    where status <> 'refunded'
    group by 1
)
select * from final

-- core: SELECT extract(month FROM order_date), orders_count FROM orders WHERE order_date >= '2026-01-01' GROUP BY extract(month FROM order_date) ORDER BY orders_count DESC
-- price: 12 units and 0 calls
with orders_2026 as (
    select * from orders where order_date >= date '2026-01-01'
),
monthly as (
    select extract(month from order_date) as month, count(*) as orders
    from orders_2026
    group by 1
)
select month, orders, lag(orders) over (order by month) as previous, orders - lag(orders) over (order by month) as change
from monthly
order by month

-- core: SELECT extract(month FROM order_date), customers FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-07-01') GROUP BY extract(month FROM order_date) ORDER BY customers DESC
-- price: 6 units and 0 calls
with monthly as (
    select extract(month from order_date) as month, count(distinct customer_id) as customers
    from orders
    where order_date between date '2026-01-01' and date '2026-06-30'
    group by 1
)
select month, customers, sum(customers) over (order by month rows between unbounded preceding and current row) as running
from monthly
order by month

-- core: SELECT product, orders_count FROM orders GROUP BY product ORDER BY orders_count DESC
-- price: 201 units and 1 call
with ranked as (
    select product, count(*) as n, row_number() over (order by count(*) desc, product) as place
    from orders
    group by product
)
select product, n from ranked where place <= 5 order by place

-- core: SELECT region, segment, customers FROM orders GROUP BY region, segment ORDER BY customers DESC
-- price: 1 unit and 0 calls
with totals as (
    select region, segment, count(distinct customer_id) as customers from orders group by 1, 2
),
regions as (
    select region, sum(customers) as customers from totals group by 1
)
select t.region, t.segment, round(100.0 * t.customers / r.customers, 1) as percent
from totals t
join regions r on r.region = t.region
order by 1, 2

-- core: SELECT channel, orders_count FROM orders GROUP BY channel ORDER BY orders_count DESC
-- price: 3 units and 0 calls
with by_channel as (
    select channel, count(*) as n from orders group by channel
)
select channel, n, n * 1.0 / (select sum(n) from by_channel) as share
from by_channel
order by share desc

-- core: SELECT category, orders_count FROM orders WHERE order_date < '2026-01-01' GROUP BY category ORDER BY orders_count DESC
-- core: SELECT category, orders_count FROM orders WHERE order_date >= '2026-01-01' GROUP BY category ORDER BY orders_count DESC
-- price: 12 units and 0 calls
with first_half as (
    select category, count(*) as n from orders where order_date < '2026-01-01' group by 1
),
second_half as (
    select category, count(*) as n from orders where order_date >= '2026-01-01' group by 1
)
select f.category, f.n as before, s.n as after
from first_half f
join second_half s using (category)

-- core: SELECT lookup(product_id, products.department), customers FROM orders GROUP BY lookup(product_id, products.department) ORDER BY customers DESC
-- price: 6 units and 0 calls
with enriched as (
    select o.customer_id, o.quantity, p.department
    from orders o
    left join products p on p.product_id = o.product_id
)
select department, count(distinct customer_id) as customers
from enriched
group by department

-- refused: not supported yet
with customers as (
    select customer_id, min(order_date) as first_order from orders group by 1
)
select date_trunc('month', first_order) as cohort, count(*) as customers from customers group by 1

-- core: SELECT CASE WHEN channel = 'web' THEN 'online' ELSE 'offline' END, items FROM orders WHERE status IN ('open', 'paid') GROUP BY CASE WHEN channel = 'web' THEN 'online' ELSE 'offline' END ORDER BY items DESC
-- price: 2 units and 0 calls
with labelled as (
    select customer_id, case when channel = 'web' then 'online' else 'offline' end as kind, quantity
    from orders
    where status in ('paid', 'open')
)
select kind, sum(quantity) as items from labelled group by kind order by kind

-- core: SELECT orders_count FROM orders WHERE (region IS NULL) = TRUE
-- price: 1 unit and 0 calls
select count(*) as failures
from (
    select * from orders where region is null
) dbt_internal_test

-- core: SELECT orders_count FROM orders WHERE NOT category IN ('Bakery', 'Drinks', 'Household', 'Office', 'Pantry', 'Sweets')
-- price: 1 unit and 0 calls
select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error
from (
    select category from orders where not (category in ('Drinks', 'Bakery', 'Sweets', 'Pantry', 'Household', 'Office'))
) dbt_internal_test

-- refused: no such name
select order_id as unique_field, count(*) as n_records
from orders
where order_id is not null
group by order_id
having count(*) > 1

-- core: SELECT date_trunc('month', order_date), items FROM orders WHERE (order_date >= '2026-01-01' AND order_date < '2026-04-01') GROUP BY date_trunc('month', order_date) ORDER BY items DESC
-- price: 3 units and 0 calls
select date_trunc('month', order_date) as metric_time__month, sum(quantity) as items
from (
    select order_date, quantity from orders src_10000
) subq_2
where order_date between '2026-01-01' and '2026-03-31'
group by date_trunc('month', order_date)

-- core: SELECT order_date, orders_count FROM orders WHERE (order_date >= '2026-06-20' AND order_date < '2026-07-01') GROUP BY order_date ORDER BY orders_count DESC
-- price: 11 units and 0 calls
select
    subq_3.metric_time__day,
    subq_3.orders as orders
from (
    select subq_2.metric_time__day, count(*) as orders
    from (
        select orders_src.order_date as metric_time__day from main.orders orders_src
    ) subq_2
    where subq_2.metric_time__day >= date '2026-06-20'
      and subq_2.metric_time__day <= date '2026-06-30'
    group by subq_2.metric_time__day
) subq_3
order by subq_3.metric_time__day

-- core: SELECT category, customers FROM orders GROUP BY category ORDER BY customers DESC LIMIT 100
-- price: 6 units and 0 calls
select *
from (
    select category, count(distinct customer_id) as customers from orders group by category
) model_subq
limit 500

-- price: free
select * from (with t as (select category, count(*) as n from orders group by category) select * from t) __dbt_sbq where false limit 0

-- refused: not supported yet
with spine as (
    select unnest(generate_series(date '2026-01-01', date '2026-06-01', interval 1 month)) as month
)
select month from spine

-- core: SELECT device, visitors FROM visits WHERE seconds >= 30 AND started >= '2026-06-01 00:00:00' GROUP BY device ORDER BY visitors DESC
-- price: 3 units and 0 calls
with recent as (
    select * from visits where started >= timestamp '2026-06-01'
),
engaged as (
    select visitor_id, page, device from recent where seconds >= 30
)
select device, count(distinct visitor_id) as visitors
from engaged
group by device
having count(distinct visitor_id) > 5
order by visitors desc

-- core: SELECT region, orders_count FROM orders GROUP BY region ORDER BY orders_count DESC
-- price: 1 unit and 0 calls
with x as (select region, count(*) as n from orders group by region),
y as (select region, n from x where n > 100)
select count(*) as regions, sum(n) as orders from y

-- refused: lists people
with deduplicated as (
    select *, row_number() over (partition by customer_id order by ordered_at desc) as rn from orders
)
select region, count(*) from deduplicated where rn = 1 group by region

-- refused: not supported yet
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select n from t
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select n from t

-- core: SELECT lookup(product_id, products.department), customers FROM orders WHERE channel = 'web' GROUP BY lookup(product_id, products.department) ORDER BY customers DESC
-- price: 6 units and 0 calls
with web_orders as (
    select * from orders where channel = 'web'
),
dimension as (
    select * from products
)
select p.department, count(distinct o.customer_id) as customers
from web_orders o
left join products p on p.product_id = o.product_id
group by p.department

-- core: SELECT lookup(product_id, products.department), customers FROM orders WHERE ((lookup(product_id, products.price)) > 2 AND (lookup(product_id, products.price)) < 10) GROUP BY lookup(product_id, products.department) ORDER BY customers DESC
-- price: 6 units and 0 calls
with joined as (
    select o.customer_id, o.quantity, p.department, p.price
    from orders as o
    join products as p on o.product_id = p.product_id
    where p.price > 2
),
cheap as (
    select department, customer_id from joined where price < 10
)
select department, count(distinct customer_id) as customers from cheap group by 1 order by 2 desc
