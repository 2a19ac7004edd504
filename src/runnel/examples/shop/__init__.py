"""A shop: clicks, orders and payments become revenue per window, a funnel, alerts and lake tables.

Reading order: rules (what is agreed on), journeys (generated events), sending (into topics), transforms and `project`
(the pipeline, a Spark Declarative Pipelines project), expected (the same results in plain Python), found (the results
that are there), check (the two compared), plot. `folder` knows where everything lies.
"""
