"""The methods whose privacy rests on their own steps, one file each; each is reviewed like a mechanism: precondition,
pseudo-code, postcondition, proof.
"""
