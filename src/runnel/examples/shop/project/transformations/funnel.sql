-- From visit to payment, per window of ten minutes and by the time of each step; computed anew in every run.
CREATE MATERIALIZED VIEW funnel AS
WITH steps AS (
  SELECT window(clicked_at, '10 minutes').start AS window_start, page AS step, session_id AS subject FROM clicks
  UNION ALL
  SELECT window(ordered_at, '10 minutes').start, 'order', order_id FROM orders
  UNION ALL
  SELECT window(paid_at, '10 minutes').start, 'paid', order_id FROM order_payments WHERE status = 'captured'
)
SELECT
  window_start,
  count(DISTINCT subject) FILTER (WHERE step NOT IN ('order', 'paid')) AS visitors,
  count(DISTINCT subject) FILTER (WHERE step = 'cart') AS carts,
  count(DISTINCT subject) FILTER (WHERE step = 'order') AS orders,
  count(DISTINCT subject) FILTER (WHERE step = 'paid') AS paid
FROM steps
GROUP BY window_start
