"""An Apache Kafka that asks for passwords and speaks TLS, for the tests of logins. User alice, password secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers import Kafka, free_port

USERS = ("SCRAM-SHA-256=[name=alice,password=secret]", "SCRAM-SHA-512=[name=alice,password=secret]")
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecuredKafka(Kafka):
    heap = ("-Xmx384M", "-XX:TieredStopAtLevel=1")

    def __init__(self, ports: Mapping[str, int], certificate: Path) -> None:
        super().__init__()
        self._ports = ports
        self._certificate = certificate

    def prepare(self, folder: Path) -> None:
        controller_port = free_port()
        self._write_properties(folder, self._ports["PLAINTEXT"], controller_port)
        doors = [f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()]
        lines = [f"listeners={','.join(doors)},CONTROLLER://127.0.0.1:{controller_port}"]
        maps = ",".join(f"{name}:{name}" for name in self._ports)
        lines.append(f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{maps}")
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self._certificate}"]
        lines.append("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
        for name in ("sasl_plaintext", "sasl_ssl"):
            lines.append(f"listener.name.{name}.plain.sasl.jaas.config={PLAIN}")
            lines += [f"listener.name.{name}.scram-sha-{bits}.sasl.jaas.config={SCRAM}" for bits in (256, 512)]
        with (folder / "server.properties").open("a") as file:
            file.write("\n".join(lines) + "\n")
        cluster_id = self._run("kafka.tools.StorageTool", "random-uuid").strip().splitlines()[-1]
        arguments = ["format", "--standalone", "-t", cluster_id, "-c", str(folder / "server.properties")]
        for user in USERS:
            arguments += ["--add-scram", user]
        self._run("kafka.tools.StorageTool", *arguments)
