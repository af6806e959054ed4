# SPDX-License-Identifier: Apache-2.0
# The machine that the README's two commands need, and the tools that they would install:
#   docker build -t mlf-sdk . && docker run --rm -v "$PWD:/work" mlf-sdk run model.tflite --board mps2-an386
FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates make python3 python3-venv \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/mlf-sdk
COPY . .
RUN apt-get update && sh .ci/install-tools.sh && rm -rf /var/lib/apt/lists/*
RUN make runtime VENV=/opt/venv && /opt/venv/bin/pip install --no-cache-dir ".[onnx,oracle]"
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /work
ENTRYPOINT ["mlf-sdk"]
