"""What nobody may read reaches no message, no log and no report."""

import pytest

from evalkit.config import build_config
from evalkit.errors import DataError, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host/a.parquet", "https://***@host/a.parquet"),
        ("s3://token@bucket/x", "s3://***@bucket/x"),
        (
            "https://h/a?X-Amz-Signature=abc&X-Amz-Credential=k&x=1",
            "https://h/a?X-Amz-Signature=***&X-Amz-Credential=***&x=1",
        ),
        ("https://h/a?sv=1&sig=abc%3D", "https://h/a?sv=1&sig=***"),
        ("https://h/a?access_token=abc", "https://h/a?access_token=***"),
        *(
            (f"https://h/a?{name}=s3cr3t&x=1", f"https://h/a?{name}=***&x=1")
            for name in (
                *("apikey", "api_key", "api-key", "x-api-key", "apiKey", "API_KEY", "auth", "jwt"),
                *("Authorization", "oauth", "pass", "passwd", "pwd", "key", "secret", "signature"),
                *("client_secret", "X-Amz-Security-Token", "X-Goog-Signature", "sas", "id_token"),
                *("api%5Fkey", "accessKey", "subscription-key", "private_key", "passphrase"),
            )
        ),
        *(
            (f"https://h/a?{name}=shown&x=1", f"https://h/a?{name}=shown&x=1")
            for name in (
                "author",
                "monkey",
                "passenger",
                "AWSAccessKeyId",
                "keyword",
                "design",
                "x",
            )
        ),
        ("https://h/a#access_token=abc", "https://h/a#access_token=***"),
        ("https://h/a?code=abc&x=1", "https://h/a?code=***&x=1"),
        ("https://h/a?auth_code=abc", "https://h/a?auth_code=***"),
        ("https://h/a?barcode=1&country_code=de", "https://h/a?barcode=1&country_code=de"),
        ("https://h/a.parquet#s3cr3t", "https://h/a.parquet#***"),
        ("'https://h/a?x=1#s3cr3t' is gone", "'https://h/a?x=1#***' is gone"),
        ("s3://bucket/a#1.parquet", "s3://bucket/a#1.parquet"),
        ("https://h/a?x=1;key=a;b&y=2", "https://h/a?x=1;key=***&y=2"),
        ("https://u:p@ss@host/a", "https://***@host/a"),
        ("logs/a@b/x?sig=1.parquet", "logs/a@b/x?sig=1.parquet"),
        ("https://h/a@b.parquet", "https://h/a@b.parquet"),
    ],
)
def test_urls_are_shown_without_what_opens_them(text, shown):
    assert masked(text) == shown


def test_errors_are_masked():
    url = "https://me:pw@host/a?sig=abc"

    error = DataError(f"{url} cannot be read", code="x", at=url, hint=f"curl {url}")

    assert "pw" not in f"{error} {error.message} {error.at} {error.hint} {error!r}"
    assert "abc" not in str(error)


def test_kept_config_is_masked():
    tree = {
        "truth": {"path": "https://me:pw@host/t.parquet"},
        "rankings": [{"model": "a", "path": ["https://h/a.parquet?sig=abc"]}],
        "metrics": {"names": ["nDCG@5"]},
        "storage": {"aws_secret_access_key": "${KEY}"},
    }

    config = build_config(tree, name="job")

    kept = str(config.dump())
    assert "pw" not in kept
    assert "abc" not in kept
    assert "${KEY}" in kept
    assert config.truth.path == ("https://me:pw@host/t.parquet",)
