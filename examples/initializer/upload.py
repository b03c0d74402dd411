"""
Puts the example's dataset into an S3 server: `python examples/initializer/upload.py [ENDPOINT]`.

Four files of rows and a page that nobody trains on. The data comes with scikit-learn; the server may be moto's.
"""

import csv
import io
import sys

import boto3
from sklearn.datasets import load_breast_cancer

BUCKET = "datasets"
PARTS = 4


def part(number):
    """Return every fourth row as CSV: the features, then the label."""
    data = load_breast_cancer()
    text = io.StringIO()
    rows = zip(data.data[number::PARTS], data.target[number::PARTS], strict=True)
    csv.writer(text).writerows([*features, label] for features, label in rows)
    return text.getvalue().encode()


def main():
    endpoint = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:5055"
    keys = {"aws_access_key_id": "example", "aws_secret_access_key": "example"}
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    s3.create_bucket(Bucket=BUCKET)
    for number in range(PARTS):
        s3.put_object(Bucket=BUCKET, Key=f"cancer/rows/{number}.csv", Body=part(number))
    s3.put_object(Bucket=BUCKET, Key="cancer/README.md", Body=b"Cells, measured.\n")
    print(f"{PARTS} files of rows are in s3://{BUCKET}/cancer at {endpoint}")


if __name__ == "__main__":
    main()
