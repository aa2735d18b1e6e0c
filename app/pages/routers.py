"""The routers of all pages. Pages call the API, and are not part of it."""

from app.pages import (
    audit,
    budget_sessions,
    jobs,
    manage,
    people,
    predictions,
    routes,
    sign_in,
    static_files,
    tokens,
    upload,
)

PAGES = (
    static_files.router,
    routes.router,
    sign_in.router,
    sign_in.return_router,
    jobs.router,
    budget_sessions.router,
    predictions.router,
    upload.router,
    upload.elsewhere,
    people.router,
    manage.router,
    manage.twins,
    tokens.router,
    audit.router,
    routes.fallback,
)
