"""One list of what is secret: by names, in URLs, and in lines of text."""

import pytest

from airflow_provider_orderedkafka.core.notation.secrets import MASK, is_secret, masked, redacted, secrets_of

CANARY = "canary5e1f"
BEGIN = "-----BEGIN PRIVATE KEY-----"
SECRET = {
    "sasl.password": CANARY,
    "kafka.ssl.key.password": CANARY,
    "ssl.key.pem": CANARY,
    "sasl.oauthbearer.client.secret": CANARY,
    "sasl.oauthbearer.config": f"principal={CANARY}",
    "sasl.jaas.config": f'org.x.PlainLoginModule required username="u" password="{CANARY}";',
    "registry.basic.auth.user.info": f"ann:{CANARY}",
    "registry.bearer.auth.token": CANARY,
    "registry.url": f"https://ann:{CANARY}@registry:8081/apis",
    "url": f"https://{CANARY}@registry",
    "path": f"s3a://KEY:{CANARY}@bucket/loads",
    "broken": f"http://ann:p/{CANARY}@registry",
    "two": f"http://registry:8081,http://ann:{CANARY}@registry",
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": CANARY,
    "fs.azure.sas.container.lake": CANARY,
    "spark.hadoop.fs.s3a.access.key": CANARY,
    "spark.hadoop.fs.s3a.bucket.lake.secret.key": CANARY,
    "spark.hadoop.fs.s3a.session.token": CANARY,
    "AWS_ACCESS_KEY_ID": CANARY,
    "fs.gs.auth.service.account.private.key": CANARY,
    "spark.openlineage.transport.auth.apiKey": CANARY,
    "spark.ssl.keyPassword": CANARY,
    "SharedAccessKey": CANARY,
    "keytab": f"BQ{CANARY}",
}
NAMED_BEFORE = ("spark.kerberos.renewal.credentials", "spark.kubernetes.driver.secrets.certificates")
"""What is known for public by the whole of its name, which a line of text may have lost."""

PUBLIC = {
    "bootstrap.servers": "a:9092,b:9092",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    "ssl.key.location": "/etc/ssl/key.pem",
    "keytab": "/etc/loader.keytab",
    "spark.kerberos.keytab": "loader.keytab",
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.x.Provider",
    "spark.kerberos.renewal.credentials": "ccache",
    "spark.kubernetes.driver.secretKeyRef.OPTIONS": "name:key",
    "spark.kubernetes.driver.secrets.certificates": "/etc/certificates",
    "google.cloud.auth.service.account.json.keyfile": "/etc/key.json",
    "registry.url": "https://registry:8081/apis?by=a@b",
    "checkpoint": "s3a://aws_default@bucket/loads",
    "azure": "abfss://container@account.dfs.core.windows.net/loads",
    "webhdfs": "webhdfs://loader@namenode:9870/loads",
    "master": "k8s://https://api:443",
    "standalone": "spark://one:7077,two:7077",
}


@pytest.mark.parametrize(("name", "value"), SECRET.items())
def test_what_is_secret_is_shown_by_no_text(name, value):
    assert is_secret(name, value)
    assert redacted({name: value}) == {name: MASK}
    for text in (f"{name}={value} more", f'{{"{name}": "{value}"}}', f"{{'{name}': '{value}'}}"):
        assert CANARY not in masked(text)
        assert any(secret in text for secret in secrets_of({name: value}))


@pytest.mark.parametrize(("name", "value"), PUBLIC.items())
def test_what_is_public_is_shown_as_it_is(name, value):
    assert not is_secret(name, value)
    assert list(secrets_of({name: value})) == []
    if name not in NAMED_BEFORE:
        assert masked(f"{name}={value} more") == f"{name}={value} more"


PLAIN = [
    *("--password-file x", "--secret-name kafka/orders", "--password --quick", "--keytab loader.keytab"),
    *(
        "a basic setting",
        "Basic Auth is refused",
        "bearer tokens, too",
        "sasl.oauthbearer.token.endpoint.url: https://a",
    ),
]


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("password=abc rest", "password=*** rest"),
        ("HivePassword='a b' rest", "HivePassword=*** rest"),
        ('{"sasl.password": "a\\"bc", "x": 1}', '{"sasl.password": ***, "x": 1}'),
        ("Kafka refused the password: SASL failed", "Kafka refused the password: SASL failed"),
        ("Authorization: Bearer abcdefghijklmnop.q rest", "Authorization: Bearer *** rest"),
        ("GET https://u:p@h/x failed", "GET https://***@h/x failed"),
        ("sasl.password: PW rest", "sasl.password: *** rest"),
        ("private_key: PW rest", "private_key: *** rest"),
        ("access_token: 'PW' rest", "access_token: *** rest"),
        ("wasbs://c@acc/x?sig=PW&se=1 rest", "wasbs://c@acc/x?sig=***&se=1 rest"),
        ("--password PW rest", "--password *** rest"),
        ("--password 'P W' rest", "--password *** rest"),
        ("Basic dTpw rest", "Basic *** rest"),
        ("Bearer abc123 rest", "Bearer *** rest"),
        ("Authorization: Bearer abc rest", "Authorization: Bearer *** rest"),
        *((text, text) for text in PLAIN),
        (f"{BEGIN}\nMIIE\n-----END PRIVATE KEY-----", f"{BEGIN}***-----END PRIVATE KEY-----"),
    ],
)
def test_a_line_of_output_is_told_without_its_secrets(line, without):
    assert masked(line) == without


def test_the_password_within_a_secret_is_one_by_itself():
    settings = {"url": "https://ann:p1@h", "basic.auth.user.info": "ann:p2", "sasl.jaas.config": 'x password="p3";'}
    assert {"p1", "p2", "p3"} <= set(secrets_of(settings))


@pytest.mark.parametrize(
    "part",
    [
        "password",
        ".password",
        "--password ",
        "?password",
        "bearer a",
        "http://a:",
        "basic ",
        "password='x",
        "a://b:c",
        BEGIN,
    ],
)
def test_a_long_line_is_masked_in_no_time(part):
    masked(part * 10_000)
