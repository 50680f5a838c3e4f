# syntax=docker/dockerfile:1
# Evidence is mounted read-only at /evidence; the root file system may be read-only, with a tmpfs at /tmp.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md constraints.txt ./
COPY scripts/wheel_backend.py scripts/
COPY kforensics kforensics
# The package brings kernels for every processor of the architecture; without them the image is not built. -P: /src has
# modules of the same names.
RUN python -m venv /opt/kforensics \
    && /opt/kforensics/bin/pip install --no-cache-dir --constraint constraints.txt . \
    && /opt/kforensics/bin/python -m compileall -q /opt/kforensics \
    && /opt/kforensics/bin/python -P -m kforensics.parsers.kernels \
    && /opt/kforensics/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=build /opt/kforensics /opt/kforensics
ENV PATH=/opt/kforensics/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# No user of the image owns anything. Run it as the user of the broker, who may read the log directory.
USER 65532:65532
WORKDIR /evidence
VOLUME ["/evidence"]
ENTRYPOINT ["kforensics"]
CMD ["--help"]
