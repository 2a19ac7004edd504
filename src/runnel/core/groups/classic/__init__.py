"""The classic group protocol: members join in rounds, and one of them assigns.

`group` is the state, `joining` and `rebalancing` the rules, `protocol` the door. Membership is soft state as in Kafka:
it changes while deciding, and is logged when a generation is complete or a group is empty.
"""
