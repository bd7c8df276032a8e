# Two images from one file: `app` (page, ingester, migrations) and `worker` (the same, beside vLLM's CUDA build).
FROM python:3.11.13-slim-bookworm AS app
WORKDIR /app
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make install
ENV PATH=/app/.venv/bin:$PATH DRAFTHOUSE_HOME=/data PYTHONUNBUFFERED=1
RUN useradd --create-home drafthouse && mkdir /data && chown drafthouse /data
USER drafthouse
ENTRYPOINT ["drafthouse"]

FROM vllm/vllm-openai:v0.32.0 AS worker
WORKDIR /app
COPY . .
RUN make install
# The image brings vLLM itself: its environment is the system's, and engines.toml says so.
ENV PATH=/app/.venv/bin:$PATH DRAFTHOUSE_HOME=/data PYTHONUNBUFFERED=1 DRAFTHOUSE_ENGINES_FILE=/app/deploy/engines.toml
ENTRYPOINT ["drafthouse"]
