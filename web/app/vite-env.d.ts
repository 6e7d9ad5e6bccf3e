/** Style sheets that the build takes in. */
declare module "*.css";
