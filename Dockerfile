# `ktrain operator`. From the root of the repository:
#   docker build -t ktrain-operator .
# It runs as user 65532 and writes nothing; the root file system may be read-only.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY ktrain ktrain
RUN python -m venv /opt/ktrain && /opt/ktrain/bin/pip install --no-cache-dir '.[otlp]'

FROM python:3.13-slim-bookworm
COPY --from=build /opt/ktrain /opt/ktrain
ENV PATH=/opt/ktrain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Deployments of Kubeflow Trainer call its operator by this name.
RUN printf '#!/bin/sh\nexec ktrain operator "$@"\n' > /manager && chmod 755 /manager
USER 65532:65532
ENTRYPOINT ["ktrain", "operator"]
