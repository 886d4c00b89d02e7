# The controller's image. Build the policies and the binary first, with the same toolchain as everywhere:
#   make image-binary && docker build -t capmaas .
# The binary is linked against the glibc of the machine that builds it: build on Debian 12 or older.
# distroless/cc has glibc, certificates, and nothing else.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY target/image/capmaas /capmaas
USER 65532:65532
EXPOSE 9440
ENTRYPOINT ["/capmaas"]
