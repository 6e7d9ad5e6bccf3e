"""An S3 server for tests: moto, which checks every signature once the bucket is there. Prints one JSON line when it is ready.

Objects come as JSON on the standard input, {"name": "content in base64"}; more of them, or null for one that goes, line by line.
"""

import base64
import json
import os
import sys

os.environ.pop("AWS_PROFILE", None)

import boto3
from moto import settings
from moto.server import ThreadedMotoServer

BUCKET = "models"
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": "*"}]}


def client(service, endpoint, key_id, secret):
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
    )


def apply(s3, changes):
    for name, content in changes.items():
        if content is None:
            s3.delete_object(Bucket=BUCKET, Key=name)
        else:
            s3.put_object(Bucket=BUCKET, Key=name, Body=base64.b64decode(content))


server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
iam = client("iam", endpoint, "setup", "setup")
iam.create_user(UserName="nereid")
iam.put_user_policy(UserName="nereid", PolicyName="s3", PolicyDocument=json.dumps(POLICY))
key = iam.create_access_key(UserName="nereid")["AccessKey"]
client("s3", endpoint, "setup", "setup").create_bucket(Bucket=BUCKET)
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
s3 = client("s3", endpoint, key["AccessKeyId"], key["SecretAccessKey"])
print(json.dumps({"endpoint": endpoint, "keyId": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
for line in sys.stdin:
    apply(s3, json.loads(line))
    print("applied", flush=True)
server.stop()
