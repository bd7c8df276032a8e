# Two images from one file: `app` (page, ingester, migrations) and `worker` (the same, beside vLLM's CUDA build).
# The digest of vLLM's image, as `sha256:...`; docs/deployment.md says how to look it up.
ARG VLLM_DIGEST=
FROM python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1 AS app
WORKDIR /app
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make install
ENV PATH=/app/.venv/bin:$PATH DRAFTHOUSE_HOME=/data PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --create-home drafthouse && mkdir -m 700 /data && chown drafthouse:drafthouse /data
ENV HOME=/tmp
USER 10001:10001
ENTRYPOINT ["drafthouse"]

FROM vllm/vllm-openai:v0.32.0${VLLM_DIGEST:+@$VLLM_DIGEST} AS worker
WORKDIR /app
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make install
# The image brings vLLM itself: its environment is the system's, and engines.toml says so.
ENV PATH=/app/.venv/bin:$PATH DRAFTHOUSE_HOME=/data PYTHONUNBUFFERED=1 DRAFTHOUSE_ENGINES_FILE=/app/deploy/engines.toml
# Engines cache what they compile and download under the home, the one place that can be written.
RUN useradd --uid 10001 --create-home drafthouse && mkdir -m 700 /data && chown drafthouse:drafthouse /data
ENV HOME=/data/engine-home
USER 10001:10001
ENTRYPOINT ["drafthouse"]
