"""The submitted mechanism: text -> checked tree -> numeric record with findings.

`text` reads XML against a closed list, `record` holds what is left as numbers, `rules` decides what of
it is legal. Nothing here compiles a model.
"""
