"""Where the image keeps the loops that were compiled with it; named in the Dockerfile, for numba."""

from numba.core.caching import UserProvidedCacheLocator


class Compiled(UserProvidedCacheLocator):  # type: ignore[misc]
    """NUMBA_CACHE_DIR, read and never written. Numba's own locators take no folder that they cannot write to."""

    def ensure_cache_path(self) -> None:
        """It was made with the image."""
