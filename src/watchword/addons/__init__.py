"""For authors of add-ons: say what an add-on is, and its hub controller follows.

>>> from watchword.addons import AddonDefinition, run_addon
>>> from watchword.addons.templates import STATUS_WRITER
>>> weather = AddonDefinition("weather", grants=(STATUS_WRITER,))

`run_addon(client, weather)` keeps registrations, rights, deployment and health of `weather` on every cluster where
it is enabled.
"""
