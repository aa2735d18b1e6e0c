"""All pages; no part of the interface, which they ask."""

from app.pages import audit, jobs, people, routes, sign_in, static_files, upload

PAGES = (
    static_files.router,
    routes.router,
    sign_in.router,
    sign_in.back,
    jobs.router,
    upload.router,
    people.router,
    audit.router,
    routes.rest,
)
