ARG BASE=python:3.11-slim-bookworm
# What the loops are compiled for: x86-64-v2 is what the locked wheels need anyway. On another architecture: generic.
ARG LOOPS=x86-64-v2

FROM ${BASE} AS build
ARG LOOPS
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
# A private registry: --secret id=pip.conf,src=... and, for its authority, --secret id=ca.pem,src=... ; neither is
# written into a layer. Only wheels: nothing of the dependencies runs while they are installed.
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
# The service needs no installer, so the image has none.
RUN /opt/tools/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /dist . && \
    /opt/venv/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl && \
    /opt/venv/bin/pip uninstall --yes setuptools pip
# Nor the parts of its libraries that it never loads: see the list there. Importing what a worker runs compiles its
# loops: for one kind of processor, not for the one that builds; and -P for the modules that are installed, since numba
# keeps a loop under its module's path.
COPY docker/prune.py docker/
RUN python3 docker/prune.py /opt/venv/lib/python3*/site-packages && \
    NUMBA_CACHE_DIR=/opt/compiled NUMBA_CPU_NAME=${LOOPS} NUMBA_CPU_FEATURES='' \
    /opt/venv/bin/python -P -c 'import app.worker.task'

FROM ${BASE}
ARG LOOPS
LABEL org.opencontainers.image.title="Privy Purse" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 purse && \
    useradd --no-log-init --uid 10001 --gid purse --home-dir /data --no-create-home --shell /usr/sbin/nologin purse && \
    install --directory --owner purse --group purse --mode 0700 /data /epoch /scratch
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/compiled /opt/compiled
# The root file system may be read-only: state is in the volume, scratch is in /tmp, compiled loops are in the image.
# /epoch and /scratch are for volumes too, of which a server may have the one and a worker the other.
ENV PATH=/opt/venv/bin:$PATH \
    PURSE_HOME=/data \
    NUMBA_CACHE_DIR=/opt/compiled \
    NUMBA_CACHE_LOCATOR_CLASSES=app.worker.compiled.Compiled \
    NUMBA_CPU_NAME=${LOOPS} \
    NUMBA_CPU_FEATURES='' \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/live', timeout=4)"]
ENTRYPOINT ["purse", "serve", "--host", "0.0.0.0"]
