ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements.lock requirements-build.lock ./
# For a private registry, pass --secret id=pip.conf,src=... and, for its authority, --secret id=ca.pem,src=... Neither
# is written into a layer. Only wheels are installed, so no code of a dependency runs during installation.
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=ca.pem \
    export PIP_CONFIG_FILE=/run/secrets/pip.conf PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 && \
    python3 -m venv /opt/tools && \
    /opt/tools/bin/pip install --only-binary :all: --require-hashes -r requirements-build.lock && \
    python3 -m venv /opt/venv && \
    /opt/venv/bin/pip install --only-binary :all: --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY accounting accounting
COPY solvers solvers
COPY purse purse
COPY app app
COPY building building
COPY docker docker
# Link the loops of the installed modules (-P), for each level of processor. Then remove the compiler, the installer,
# and the parts of libraries that are never loaded (listed in prune.py).
RUN /opt/tools/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /dist . && \
    /opt/venv/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl && \
    /opt/venv/bin/python -P building/link.py && \
    /opt/venv/bin/pip uninstall --yes numba llvmlite setuptools pip && \
    python3 docker/prune.py /opt/venv/lib/python3*/site-packages && \
    python3 docker/root.py /root-of-image /opt/venv && \
    mkdir /folders && mkdir -m 0700 /folders/data /folders/epoch /folders/scratch

# The image contains only Python, the environment and their shared libraries. It has no shell and no packages.
FROM scratch
LABEL org.opencontainers.image.title="Privy Purse" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /root-of-image /
COPY --from=build /opt/venv /opt/venv
COPY --from=build --chown=10001:10001 /folders /
# The root file system may be read-only, because state is in the volume and temporary files are in /tmp. A server may
# mount another volume at /epoch, and a worker one at /scratch.
ENV PATH=/opt/venv/bin:/usr/bin \
    PURSE_HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
WORKDIR /data
USER 10001:10001
# The build fails if a needed file is missing.
RUN --mount=type=bind,from=build,source=/src/docker,target=/mnt ["python", "/mnt/smoke.py"]
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/live', timeout=4)"]
ENTRYPOINT ["purse", "serve", "--host", "0.0.0.0"]
