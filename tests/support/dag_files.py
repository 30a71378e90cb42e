"""The DAGs of a file, as Airflow's own parser finds them."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_DAG_BAG = "airflow.dag_processing.dagbag"


# airflow 3.1.8 has it in models, 3.2.2 and 3.3.2 in dag_processing. Public would be: the DAGs of a file.
def dags_of(path: Path, folder: Path) -> dict[str, Any]:
    """The DAGs that a file in a DAG folder defines, by ID; `RuntimeError` where it cannot be parsed."""
    bag: Any = import_module(_DAG_BAG if find_spec(_DAG_BAG) else "airflow.models.dagbag")
    arguments = {"bundle_name": "dags-folder"} if bag.__name__ == _DAG_BAG else {}
    found = bag.DagBag(str(path), bundle_path=folder, **arguments)
    if found.import_errors:
        raise RuntimeError(*found.import_errors.values())
    dags: dict[str, Any] = found.dags
    return dags
