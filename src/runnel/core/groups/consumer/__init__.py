"""The consumer group protocol (KIP-848): members send heartbeats, and the coordinator assigns.

`group` is the state: the latest record of each key. `heartbeat` and `leaving` are the two things that members do,
`advance` what both lead to: a new epoch, a new target, one step of a member towards it (`reconciliation`).
`classic_members` serves members that still speak the classic protocol, `commits` says who may commit. Decisions change
nothing but deadlines: records are returned, logged and replayed.
"""
