"""For authors of add-ons: say what an add-on is, and its hub controller follows.

>>> from watchword.addons.definition import AddonDefinition
>>> from watchword.addons.rbac import status_writer
>>> weather = AddonDefinition("weather", grants=(status_writer("forecast"),))

`run_addon(client, weather)` of `watchword.addons.hub.definition_controllers` keeps registrations, rights, deployment
and health of `weather` on every cluster where it is enabled.
A whole add-on, hub side and cluster side, is in `watchword.addons.sample`.
"""
