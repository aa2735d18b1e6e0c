"""Methods that see the data, one file each.

Their privacy depends on their own steps, so each is reviewed like a mechanism: precondition, pseudo-code, postcondition
and proof.
"""
