# `ktrain operator`. From the root of the repository:
#   docker build -t ktrain-operator .
# It runs as user 65532 and writes nothing; the root file system may be read-only. docs/images.md has the arguments.
#
# Both bases have Debian 12's Python 3.11 at /usr/bin/python3.11. The second one has no shell and no package manager.
ARG BUILD_IMAGE=docker.io/library/debian:12-slim
ARG BUILD_DIGEST=
ARG BASE_IMAGE=gcr.io/distroless/python3-debian12:nonroot
ARG BASE_DIGEST=

FROM ${BUILD_IMAGE}${BUILD_DIGEST:+@}${BUILD_DIGEST} AS build
ARG UV_VERSION=0.13.9
# Names of packages or URLs of wheels, beside docker/wheels/*.whl.
ARG PLUGINS=
# Packages that the operator itself does not import.
ARG LEFT_OUT=kubernetes-asyncio
ARG SOURCE_DATE_EPOCH=0
ENV UV_SYSTEM_CERTS=1 UV_NO_CACHE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/ktrain UV_PYTHON=/usr/bin/python3.11 PYTHONDONTWRITEBYTECODE=1
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3-venv \
  && python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --no-compile "uv==$UV_VERSION"
WORKDIR /src
COPY . .
# Versions and hashes are those of uv.lock. What a build writes of its own, times among it, is removed; bytecode is
# compiled without times, and never checked against its source.
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-editable --extra otlp $(printf -- ' --no-install-package %s' $LEFT_OUT) \
  && for plugin in $PLUGINS $(find docker/wheels -name '*.whl'); do \
       /opt/uv/bin/uv pip install --python /opt/ktrain/bin/python "$plugin" || exit; \
     done \
  && find /opt/ktrain \( -name uv_cache.json -o -name .lock \) -delete \
  && find /opt/ktrain -name RECORD -exec sed -i /uv_cache.json/d {} + \
  && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ktrain/lib \
  && printf '#!/opt/ktrain/bin/python\nimport sys\n\nfrom ktrain.cli.main import entry\n\nsys.argv.insert(1, "operator")\nentry()\n' >/opt/ktrain/bin/manager \
  && chmod 755 /opt/ktrain/bin/manager \
  && find /opt/ktrain -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

FROM ${BASE_IMAGE}${BASE_DIGEST:+@}${BASE_DIGEST}
COPY --from=build /opt/ktrain /opt/ktrain
# Deployments of Kubeflow Trainer call its operator by this name.
COPY --from=build /opt/ktrain/bin/manager /manager
ENV PATH=/opt/ktrain/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["ktrain", "operator"]
