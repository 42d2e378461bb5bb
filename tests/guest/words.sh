# What the scripts that run inside a guest say, for bash and busybox.

say() {
    echo "guest: $*"
}

# What the server and the kernel said last goes with it.
fail() {
    say "FAILED: $*"
    [ -e /tmp/serve.err ] && sed 's/^/guest: server: /' /tmp/serve.err
    dmesg | tail -n 15 | sed 's/^/guest: kernel: /'
    exit 1
}
