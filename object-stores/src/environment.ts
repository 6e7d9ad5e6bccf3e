/**
 * Every environment variable of the stores. Sources: AWS SDKs and Tools Reference Guide, Azure and Google Cloud authentication
 * pages, Triton documentation "Model Repository". docs/environment.md is generated from this table.
 */

export const STORES_ENVIRONMENT = {
  NEREID_MODEL_CACHE: { default: "a temporary folder", meaning: "Folder that keeps models of stores between runs." },
  NEREID_STORE_TIMEOUT_SECONDS: { default: "30", meaning: "Seconds without a byte after which a request fails." },
  TRITON_AWS_MOUNT_DIRECTORY: { default: "NEREID_MODEL_CACHE", meaning: "As NEREID_MODEL_CACHE, for S3." },
  TRITON_GCS_MOUNT_DIRECTORY: { default: "NEREID_MODEL_CACHE", meaning: "As NEREID_MODEL_CACHE, for Google Cloud." },
  TRITON_AZURE_MOUNT_DIRECTORY: { default: "NEREID_MODEL_CACHE", meaning: "As NEREID_MODEL_CACHE, for Azure." },
  TRITON_CLOUD_CREDENTIAL_PATH: { default: "none", meaning: "JSON file with a credential for each bucket." },
  AWS_DEFAULT_REGION: { default: "AWS_REGION", meaning: "Region of S3." },
  AWS_REGION: { default: "us-east-1", meaning: "Region of S3, where AWS_DEFAULT_REGION is not set." },
  AWS_ACCESS_KEY_ID: { default: "the profile", meaning: "Access key of S3." },
  AWS_SECRET_ACCESS_KEY: { default: "the profile", meaning: "Secret of the access key." },
  AWS_SESSION_TOKEN: { default: "none", meaning: "Token of temporary keys." },
  AWS_PROFILE: { default: "default", meaning: "Profile of the credentials and configuration files." },
  AWS_SHARED_CREDENTIALS_FILE: { default: "~/.aws/credentials", meaning: "Credentials file." },
  AWS_CONFIG_FILE: { default: "~/.aws/config", meaning: "Configuration file." },
  AWS_ENDPOINT_URL_S3: { default: "AWS's own", meaning: "Address of S3." },
  AWS_ENDPOINT_URL: { default: "AWS's own", meaning: "Address of S3, where AWS_ENDPOINT_URL_S3 is not set." },
  AWS_ENDPOINT_URL_STS: { default: "the region's", meaning: "Address of the token service." },
  AWS_WEB_IDENTITY_TOKEN_FILE: { default: "none", meaning: "Token of a service account, exchanged for keys." },
  AWS_ROLE_ARN: { default: "none", meaning: "Role of the exchanged token." },
  AWS_ROLE_SESSION_NAME: { default: "nereid", meaning: "Name of the role's session." },
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: { default: "none", meaning: "Path of a container's keys." },
  AWS_CONTAINER_CREDENTIALS_FULL_URI: { default: "none", meaning: "Address of a container's keys." },
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: { default: "none", meaning: "File with the token for that address." },
  AWS_CONTAINER_AUTHORIZATION_TOKEN: { default: "none", meaning: "Token for that address." },
  AWS_EC2_METADATA_DISABLED: { default: "false", meaning: "true: the machine's own keys are not asked for." },
  AWS_EC2_METADATA_SERVICE_ENDPOINT: { default: "http://169.254.169.254", meaning: "Address of the machine's keys." },
  HOME: { default: "the user's", meaning: "Folder that has .aws." },
  GOOGLE_APPLICATION_CREDENTIALS: { default: "none", meaning: "Credentials file of Google Cloud." },
  STORAGE_EMULATOR_HOST: { default: "none", meaning: "Address of an emulator of Google Cloud Storage." },
  GCE_METADATA_HOST: { default: "metadata.google.internal", meaning: "Host of the machine's identity." },
  AZURE_STORAGE_CONNECTION_STRING: { default: "none", meaning: "Account, key and address of Azure in one." },
  AZURE_STORAGE_ACCOUNT: { default: "the connection string", meaning: "Storage account." },
  AZURE_STORAGE_KEY: { default: "the connection string", meaning: "Key of the account." },
  AZURE_STORAGE_SAS_TOKEN: { default: "the connection string", meaning: "Shared access signature." },
  AZURE_STORAGE_AUTH_TYPE: { default: "chosen by what is set", meaning: "key, managed_identity or default." },
  AZURE_STORAGE_CLIENT_ID: { default: "none", meaning: "Managed identity to use, where the machine has several." },
  AZURE_TENANT_ID: { default: "none", meaning: "Tenant of a service principal." },
  AZURE_CLIENT_ID: { default: "none", meaning: "Client of a service principal." },
  AZURE_CLIENT_SECRET: { default: "none", meaning: "Secret of the client." },
  AZURE_FEDERATED_TOKEN_FILE: { default: "none", meaning: "Token that stands for the secret." },
  AZURE_AUTHORITY_HOST: { default: "https://login.microsoftonline.com/", meaning: "Address of the token service." },
  IDENTITY_ENDPOINT: { default: "none", meaning: "Address of an application's identity." },
  IDENTITY_HEADER: { default: "none", meaning: "Secret for that address." },
} as const;

export type StoreVariable = keyof typeof STORES_ENVIRONMENT;
/** A variable that the table lacks does not compile. */
export type StoresEnvironment = { readonly [Name in StoreVariable]?: string | undefined };

/** The first that is set and not empty. */
export function variable(env: StoresEnvironment, ...names: readonly StoreVariable[]): string | undefined {
  for (const name of names) {
    const text = env[name]?.trim();
    if (text !== undefined && text !== "") return text;
  }
  return undefined;
}
