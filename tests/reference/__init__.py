"""The numbers of `accounting` by other means: slow, plain, and sharing no line with what they check.

Two of them compose their masses with dp-accounting; the masses are their own. Nothing outside `tests` imports this.
"""
