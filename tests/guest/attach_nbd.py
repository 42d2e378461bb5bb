#!/usr/bin/env python3
"""Attaches an export on a Unix socket to the kernel's NBD client, over netlink: with a time that the kernel waits for another
connection when one is lost, which Debian's nbd-client does not set, and one after which it asks again what was not answered on
the old one. With --again, that other connection is given.

attach_nbd.py SOCKET EXPORT NUMBER SECONDS_WITHOUT_CONNECTION SECONDS_OF_REQUEST [--again]
"""

import os
import socket
import struct
import sys

INDEX, SIZE, BLOCK_SIZE, TIMEOUT, SERVER_FLAGS, SOCKETS, DEAD_CONNECTION_TIMEOUT = 1, 2, 3, 4, 5, 7, 8
CONNECT, RECONFIGURE = 1, 3
NESTED = 0x8000


def exactly(stream, count):
    data = b''
    while len(data) < count:
        piece = stream.recv(count - len(data))
        if not piece:
            sys.exit('the server has hung up')
        data += piece
    return data


def choose(path, export):
    """A connection on which requests can be sent, the size of the export and its flags."""
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(path)
    exactly(stream, 18)
    stream.sendall(struct.pack('>I', 3))  # Newstyle, no zeros.
    stream.sendall(b'IHAVEOPT' + struct.pack('>II', 1, len(export)) + export.encode())
    size, flags = struct.unpack('>QH', exactly(stream, 10))
    return stream, size, flags


def attribute(kind, value):
    length = 4 + len(value)
    return struct.pack('=HH', length, kind) + value + bytes(-length % 4)


def ask(netlink, family, command, attributes):
    body = struct.pack('=BBH', command, 1, 0) + attributes
    netlink.send(struct.pack('=IHHII', 16 + len(body), family, 5, 1, 0) + body)  # Request, acknowledged.
    answers = []
    while True:
        data = netlink.recv(65536)
        while data:
            length, kind = struct.unpack_from('=IH', data)
            if kind == 2:  # The acknowledgement, or an error.
                error = struct.unpack_from('=i', data, 16)[0]
                if error:
                    sys.exit(f'netlink: {os.strerror(-error)}')
                return answers
            answers.append(data[16:length])
            data = data[(length + 3) & ~3:]


def family_of(netlink, name):
    answer = ask(netlink, 16, 3, attribute(2, name.encode() + b'\0'))[0]
    at = 4
    while at < len(answer):
        length, kind = struct.unpack_from('=HH', answer, at)
        if kind == 1:
            return struct.unpack_from('=H', answer, at + 4)[0]
        at += (length + 3) & ~3
    sys.exit(f'the kernel has no {name}')


def main():
    path, export, number, dead, request = sys.argv[1:6]
    again = sys.argv[6:] == ['--again']
    stream, size, flags = choose(path, export)
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    netlink.bind((0, 0))
    family = family_of(netlink, 'nbd')
    item = attribute(NESTED | 1, attribute(1, struct.pack('=I', stream.fileno())))
    attributes = attribute(INDEX, struct.pack('=I', int(number)))
    attributes += attribute(NESTED | SOCKETS, item)
    attributes += attribute(DEAD_CONNECTION_TIMEOUT, struct.pack('=Q', int(dead)))
    attributes += attribute(TIMEOUT, struct.pack('=Q', int(request)))
    if not again:
        attributes += attribute(SIZE, struct.pack('=Q', size))
        attributes += attribute(BLOCK_SIZE, struct.pack('=Q', 4096))
        attributes += attribute(SERVER_FLAGS, struct.pack('=Q', flags))
    ask(netlink, family, RECONFIGURE if again else CONNECT, attributes)


main()
